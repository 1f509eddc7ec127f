//! The state that a new leader goes on from: the store's record, or what this process knows of it.

use crate::leadership::last_seen::RecordOrder;
use crate::leadership::resource_state::ResourceState;
use crate::messages::reply::ReplyTo;
use rampmeter_discovery::{DiscoveredSnapshot, Discovery};
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::durability::snapshot::{PermitSnapshot, Snapshot};
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::StartPolicy;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_store::{ClockReading, Revision, StateRecord, StoreError, StoredEntry, StoredPages, StoredState};

/// The state that a new leader goes on from.
pub(crate) enum PredecessorState {
    /// The store never knew the resource.
    None,
    /// The latest record.
    Latest(Inherited),
    /// A record that may have had successors, which the store has lost.
    Doubtful(Inherited),
    /// A state that was known once, and its epoch. Another leader may have gone on from it.
    Outdated(Outdated),
    /// A record that cannot be used.
    Lost,
}

/// What is left of an outdated record.
pub(crate) struct Outdated {
    snapshot: Snapshot,
    discovered: Vec<DiscoveredSnapshot>,
    epoch: Epoch,
}

/// A predecessor's record, the permits and pages that it names, and its age in the store.
pub(crate) struct Inherited {
    record: Box<StateRecord>,
    permits: Vec<PermitSnapshot>,
    pages: StoredPages,
    /// How long the record has been in the store.
    there_for: Span,
}

impl PredecessorState {
    /// The predecessor's state, from the record in the store and the record that was seen before.
    pub(crate) async fn of(state: &ResourceState, found: StoredEntry) -> Result<Self, StoreError> {
        let (StoredEntry { revision, state: found }, resource) = (found, state.name());
        Ok(match (found, state.seen()) {
            (StoredState::Newer(version), _) => {
                let reason = format!("its state is in format {version}, which a newer build wrote");
                return Err(StoreError::Unavailable(reason));
            }
            (StoredState::Record(record), Some(seen)) if seen.order_of(&record, revision) == RecordOrder::Earlier => {
                tracing::error!(%resource, "the store went back to an older state");
                outdated(state, &seen.record).await?
            }
            (StoredState::Record(record), _) => Self::inherited(state, record, revision).await?,
            (StoredState::Nothing, Some(seen)) => {
                tracing::error!(%resource, "the stored state is gone");
                outdated(state, &seen.record).await?
            }
            (StoredState::Nothing, None) => PredecessorState::None,
            (StoredState::Damaged(damage, _), Some(seen)) => {
                tracing::error!(%resource, %damage, "the stored state is damaged");
                outdated(state, &seen.record).await?
            }
            (StoredState::Damaged(damage, Some(before)), None) => {
                tracing::error!(%resource, %damage, "the stored state is damaged; going on from the one before");
                outdated(state, &before).await?
            }
            (StoredState::Damaged(damage, None), None) => {
                tracing::error!(%resource, %damage, "the stored state is lost; every bucket starts empty");
                PredecessorState::Lost
            }
        })
    }

    async fn inherited(
        state: &ResourceState,
        record: Box<StateRecord>,
        revision: Revision,
    ) -> Result<Self, StoreError> {
        let (store, name) = (&state.context().store, state.name());
        let permits = store.read_permits(name, &record).await?;
        let pages = store.read_pages(name, &record).await?;
        let there_for = match state.seen().filter(|seen| seen.revision == revision && seen.record == *record) {
            Some(seen) => seen.certainly_there_for(state.now(), &ClockReading::now(), None),
            None => {
                let by_store = store.age(name, revision).await?;
                record.saved.certainly_past(&ClockReading::now(), Some(by_store))
            }
        };
        let (epoch, remembered) = (record.epoch.get(), permits.len());
        tracing::info!(resource = %name, epoch, %there_for, permits = remembered, "going on from the stored state");
        let latest = state.is_latest(&record);
        let inherited = Inherited { record, permits, pages, there_for };
        if latest {
            return Ok(PredecessorState::Latest(inherited));
        }
        tracing::warn!(
            resource = %name,
            "the NATS server was started anew since the state was written, and may hold an older copy: limits of short periods start empty"
        );
        Ok(PredecessorState::Doubtful(inherited))
    }

    /// The core and the discovery of limits as the predecessor left them, in the next epoch. If the
    /// last epoch is uncertain, the next one is the wall time, which is above any counted epoch.
    pub(crate) fn restore(self, written: Resource, now: Time) -> (Scheduler<ReplyTo>, Discovery) {
        let discovery = Discovery::begin(&written, now, &self.discovered());
        let core = self.restore_core(discovery.extended(written), now);
        (core.fenced().with_pages_from(rand::random::<u32>() / 2), discovery)
    }

    fn discovered(&self) -> Vec<DiscoveredSnapshot> {
        match self {
            PredecessorState::None | PredecessorState::Lost => Vec::new(),
            PredecessorState::Latest(inherited) | PredecessorState::Doubtful(inherited) => {
                inherited.record.discovered()
            }
            PredecessorState::Outdated(outdated) => outdated.discovered.clone(),
        }
    }

    fn restore_core(self, resource: Resource, now: Time) -> Scheduler<ReplyTo> {
        match self {
            PredecessorState::None => {
                let start = start_text(resource.spec().start);
                tracing::info!(resource = %resource.name(), "the store does not know the resource: {start}");
                Scheduler::new(resource, Epoch::FIRST, now)
            }
            PredecessorState::Latest(inherited) => {
                let epoch = inherited.record.epoch.next();
                inherited.restore(resource, epoch, now)
            }
            PredecessorState::Doubtful(inherited) => {
                let epoch = Epoch::new(unix_ms()).max(inherited.record.epoch.next());
                inherited.restore(resource, epoch, now).without_stock(now)
            }
            PredecessorState::Outdated(Outdated { snapshot, epoch, .. }) => {
                let epoch = Epoch::new(unix_ms()).max(epoch.next());
                Scheduler::restore(resource, epoch, now, now, &snapshot)
            }
            PredecessorState::Lost => Scheduler::cautious(resource, Epoch::new(unix_ms()), now),
        }
    }
}

impl Inherited {
    fn restore(self, resource: Resource, epoch: Epoch, now: Time) -> Scheduler<ReplyTo> {
        let snapshot = self.record.snapshot(self.permits, self.pages);
        Scheduler::restore(resource, epoch, now, now - self.there_for, &snapshot)
    }
}

fn start_text(start: StartPolicy) -> &'static str {
    match start {
        StartPolicy::Full => "its buckets start full",
        StartPolicy::Unproven => "its buckets start full and are drawn on with care",
        StartPolicy::Empty => "its buckets start empty",
    }
}

/// The state of an outdated record. Everything that has come in since may be spent.
async fn outdated(state: &ResourceState, record: &StateRecord) -> Result<PredecessorState, StoreError> {
    let pages = state.context().store.read_pages(state.name(), record).await?;
    let (snapshot, discovered) = (record.cautious_snapshot(pages), record.discovered());
    Ok(PredecessorState::Outdated(Outdated { snapshot, discovered, epoch: record.epoch }))
}

/// Whether no permit was ever granted, as far as the store tells. Such a store may also be a new
/// one in place of another.
pub(crate) fn is_fresh(found: &StoredEntry) -> bool {
    match &found.state {
        StoredState::Nothing => true,
        StoredState::Record(record) => record.epoch == Epoch::FIRST && record.checkpoint == 1,
        StoredState::Damaged(..) | StoredState::Newer(_) => false,
    }
}

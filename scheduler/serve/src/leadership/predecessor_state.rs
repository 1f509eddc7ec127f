//! The state with which a new leader starts, from the store's record or from memory.

use crate::leadership::resource_state::ResourceState;
use crate::leadership::standby::witnesses::{self, CERTAINLY_OVER, Latest};
use crate::messages::reply::ReplyTo;
use rampmeter_discovery::{DiscoveredSnapshot, Discovery};
use rampmeter_policy::Resource;
use rampmeter_policy::spec::StartPolicy;
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::durability::snapshot::Snapshot;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_store::{ClockReading, Revision, StateRecord, StoreError, StoredEntry, StoredState};

pub(crate) enum PredecessorState {
    /// The store never knew the resource.
    None,
    Known(Box<Inherited>),
    /// A record exists that cannot be used.
    Lost,
}

pub(crate) struct Inherited {
    snapshot: Snapshot,
    discovered: Vec<DiscoveredSnapshot>,
    /// The successor's epoch.
    epoch: Epoch,
    /// How long the record has certainly been in the store.
    there_for: Span,
    /// Whether the record may have had successors that the store has lost.
    is_doubtful: bool,
}

impl PredecessorState {
    /// Determines the predecessor's state, from the record in the store and the record seen before.
    pub(crate) async fn of(state: &ResourceState, found: StoredEntry) -> Result<Self, StoreError> {
        let (StoredEntry { revision, state: found }, resource) = (found, &state.name);
        if let Some(witnessed) = Self::witnessed(state, &found, revision).await? {
            return Ok(witnessed);
        }
        Ok(match (found, state.seen()) {
            (StoredState::Newer(version), _) => {
                let reason = format!("its state is in format {version}, which a newer build wrote");
                return Err(StoreError::Unavailable(reason));
            }
            (StoredState::Record(record), Some(seen)) if seen.is_later_than(&record, revision) => {
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

    /// Returns the state held by the standbys of the latest known record, if the leader may have gone on with them.
    async fn witnessed(
        state: &ResourceState,
        found: &StoredState,
        revision: Revision,
    ) -> Result<Option<Self>, StoreError> {
        let (context, name, seen) = (&state.context, &state.name, state.seen());
        let found = if let StoredState::Record(found) = found { Some(&**found) } else { None };
        let newer = seen.filter(|seen| found.is_none_or(|found| seen.is_later_than(found, revision)));
        let Some(last) = newer.map(|seen| &seen.record).or(found) else { return Ok(None) };
        match witnesses::latest(context, name, &state.memory, last, revision).await {
            Latest::Stored => Ok(None),
            Latest::Held(held) => {
                let pages = context.store.read_pages(name, &held.record).await?;
                let there_for = held.certainly_there_for(state.now(), &ClockReading::now(), None);
                let (epoch, checkpoint) = (held.record.epoch.get(), held.record.checkpoint);
                tracing::info!(resource = %name, epoch, checkpoint, "going on from what a standby holds");
                let (snapshot, discovered) = (held.record.snapshot(Vec::new(), pages), held.record.discovered);
                let epoch = held.record.epoch.next();
                let inherited = Inherited { snapshot, discovered, epoch, there_for, is_doubtful: false };
                Ok(Some(PredecessorState::Known(Box::new(inherited))))
            }
            Latest::Unknown if there_for(state, last, revision).await? < CERTAINLY_OVER => {
                let reason = "its leader may go on with standbys that do not answer here".to_owned();
                Err(StoreError::Unavailable(reason))
            }
            Latest::Unknown => {
                tracing::error!(resource = %name, "the leader is lost with all of its standbys");
                outdated(state, last).await.map(Some)
            }
        }
    }

    async fn inherited(
        state: &ResourceState,
        record: Box<StateRecord>,
        revision: Revision,
    ) -> Result<Self, StoreError> {
        let (store, name) = (&state.context.store, &state.name);
        let permits = store.read_permits(name, &record).await?;
        let pages = store.read_pages(name, &record).await?;
        let there_for = there_for(state, &record, revision).await?;
        let (epoch, remembered) = (record.epoch.get(), permits.len());
        tracing::info!(resource = %name, epoch, %there_for, permits = remembered, "going on from the stored state");
        let is_doubtful = !state.is_latest(&record);
        if is_doubtful {
            tracing::warn!(
                resource = %name,
                "the NATS server was started anew since the state was written, and may hold an older copy: limits of short periods start empty"
            );
        }
        let epoch = if is_doubtful { above_all(record.epoch) } else { record.epoch.next() };
        let (snapshot, discovered) = (record.snapshot(permits, pages), record.discovered);
        let inherited = Inherited { snapshot, discovered, epoch, there_for, is_doubtful };
        Ok(PredecessorState::Known(Box::new(inherited)))
    }

    /// Restores the core and the discovery of limits in the next epoch.
    pub(crate) fn restore(self, written: Resource, now: Time) -> (Scheduler<ReplyTo>, Discovery) {
        let discovered = if let PredecessorState::Known(inherited) = &self { &inherited.discovered[..] } else { &[] };
        let discovery = Discovery::begin(&written, now, discovered);
        let core = self.restore_core(discovery.extended(written), now);
        (core.fenced().with_pages_from(rand::random::<u32>() / 2), discovery)
    }

    fn restore_core(self, resource: Resource, now: Time) -> Scheduler<ReplyTo> {
        match self {
            PredecessorState::None => {
                let start = start_text(resource.spec().start);
                tracing::info!(resource = %resource.name(), "the store does not know the resource: {start}");
                Scheduler::new(resource, Epoch::FIRST, now)
            }
            PredecessorState::Known(inherited) => {
                let Inherited { snapshot, epoch, there_for, is_doubtful, .. } = *inherited;
                let core = Scheduler::restore(resource, epoch, now, now - there_for, &snapshot);
                if is_doubtful { core.without_stock(now) } else { core }
            }
            PredecessorState::Lost => Scheduler::cautious(resource, Epoch::new(unix_ms()), now),
        }
    }
}

/// Returns the epoch after an uncertain one: the wall time, which is above any counted epoch.
fn above_all(epoch: Epoch) -> Epoch {
    Epoch::new(unix_ms()).max(epoch.next())
}

fn start_text(start: StartPolicy) -> &'static str {
    match start {
        StartPolicy::Full => "its buckets start full",
        StartPolicy::Unproven => "its buckets start full and are drawn on with care",
        StartPolicy::Empty => "its buckets start empty",
    }
}

/// Returns for how long `record` has certainly been in the store, at `revision` or as it was seen before.
async fn there_for(state: &ResourceState, record: &StateRecord, revision: Revision) -> Result<Span, StoreError> {
    match state.seen().filter(|seen| seen.record == *record) {
        Some(seen) => Ok(seen.certainly_there_for(state.now(), &ClockReading::now(), None)),
        None => {
            let by_store = state.context.store.age(&state.name, revision).await?;
            Ok(record.saved.certainly_past(&ClockReading::now(), Some(by_store)))
        }
    }
}

/// Returns an outdated state. All capacity that became available since may be spent.
async fn outdated(state: &ResourceState, record: &StateRecord) -> Result<PredecessorState, StoreError> {
    let pages = state.context.store.read_pages(&state.name, record).await?;
    let (snapshot, discovered) = (record.cautious_snapshot(pages), record.discovered.clone());
    let (epoch, there_for) = (above_all(record.epoch), Span::ZERO);
    let inherited = Inherited { snapshot, discovered, epoch, there_for, is_doubtful: false };
    Ok(PredecessorState::Known(Box::new(inherited)))
}

/// Returns whether no permit was ever granted, according to the store. It may be new in place of another.
pub(crate) fn is_fresh(found: &StoredEntry) -> bool {
    match &found.state {
        StoredState::Nothing => true,
        StoredState::Record(record) => record.epoch == Epoch::FIRST && record.checkpoint == 1,
        StoredState::Damaged(..) | StoredState::Newer(_) => false,
    }
}

//! Taking a resource over: going on from what the store and this process know.

use crate::serve::leadership::last_seen::{Sequel, note};
use crate::serve::leadership::resource_leader::{INBOUND, LoopHandle, ORDERS, ResourceLeader, Term};
use crate::serve::messages::reply::ReplyTo;
use crate::serve::permits::permit_loop::{Parts, Pending};
use crate::store::{
    Found, FoundState, KeysRecord, LevelRecord, Moment, PermitRecord, Revision, StateRecord, StoreError, StoredPages,
    freezes_of,
};
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::durability::snapshot::Snapshot;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::ids::CheckpointNumber;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::scheduler::Scheduler;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// What to go on from.
enum Legacy {
    /// The store never knew the resource.
    None,
    /// A record, with its permits and pages, and for how long it has been there.
    Record(Box<StateRecord>, Vec<PermitRecord>, StoredPages, Span),
    /// The same, which may have had successors that the store has lost.
    Doubtful(Box<StateRecord>, Vec<PermitRecord>, StoredPages, Span),
    /// What was known once: somebody may have gone on from there.
    Outdated(Snapshot, u64),
    /// Nothing that can be used.
    Lost,
}

impl ResourceLeader {
    /// Writes the next epoch's first mark into the state record, and starts the loop. The write decides: whatever was read
    /// before, from a replica that lags behind perhaps, is true if the store takes it.
    pub(crate) async fn take_over(&mut self) -> anyhow::Result<Term> {
        let found = self.context.store.read(self.resource.name()).await?;
        let revision = found.revision;
        self.check_vacant(&found)?;
        let listens = is_fresh(&found);
        if let FoundState::Record(record) = &found.state {
            self.rules.reach(record.rules).await;
        }
        self.take_rules();
        let unix_at_origin = self.context.store.unix_nanos_at_origin(self.context.clock).await?;
        let legacy = self.legacy(found).await?;
        let now = self.now();
        // Windows are cut by the store's clock, and from here on time goes on as it does.
        let resource = self.resource.clone().at_unix(unix_at_origin);
        // A long record keeps no other resource's marks and probes waiting.
        let mut core = tokio::task::spawn_blocking(move || restore(resource, now, legacy)).await?;
        let mark = core.checkpoint(now).expect("a new fence is open for marks");
        let pending = Pending { epoch: core.epoch(), moment: Moment::now(), mark, rules: self.rules.revision() };
        let nonce = rand::random();
        let state = self.record(&pending, nonce);
        self.context.store.write_pages(self.resource.name(), &pending.mark.state.new_pages).await?;
        let revision = self.context.store.write(self.resource.name(), &state, revision).await?;
        self.delete_other_pages(state.clone());
        let listening = listens.then_some(pending.mark.number);
        if !listens {
            core.handle(now, Event::CheckpointStored(pending.mark.number));
        }
        self.begin(core, unix_at_origin, state, revision, listening).await
    }

    /// Deletes pages of former terms that the first record of this one does not name, beside the first permits.
    fn delete_other_pages(&self, state: StateRecord) {
        let (store, name) = (self.context.store.clone(), self.resource.name().clone());
        tokio::spawn(async move {
            if let Err(error) = store.delete_other_pages(&name, &state).await {
                tracing::warn!(resource = %name, %error, "pages that no record names may be left in the store");
            }
        });
    }

    /// What was judged vacant has to be what is replaced: another may have won meanwhile.
    fn check_vacant(&mut self, found: &Found) -> Result<(), StoreError> {
        let (FoundState::Record(record), Some(seen)) = (&found.state, &self.seen) else { return Ok(()) };
        let another = !record.released && record.nonce != seen.record.nonce;
        if another && seen.sequel(record, found.revision) == Sequel::Later {
            note(&mut self.seen, self.context.clock.now(), (**record).clone(), found.revision);
            return Err(StoreError::Superseded);
        }
        Ok(())
    }

    async fn begin(
        &mut self,
        core: Scheduler<ReplyTo>,
        unix_at_origin: u64,
        state: StateRecord,
        revision: Revision,
        listening: Option<CheckpointNumber>,
    ) -> anyhow::Result<Term> {
        let (epoch, nonce) = (state.epoch, state.nonce);
        note(&mut self.seen, self.context.clock.now(), state, revision);
        let ((orders, orders_taken), (inbound, inbound_taken)) = (mpsc::channel(ORDERS), mpsc::channel(INBOUND));
        let (marks, pending) = mpsc::channel(1);
        let (open, opened) = oneshot::channel();
        let (subjects, clock, leader) =
            (self.context.subjects.clone(), self.context.clock, self.context.leader.clone());
        let (reader, provider, rules) = (self.reader, self.provider, self.rules.in_force());
        let parts = Parts {
            core,
            reader,
            subjects,
            clock,
            process: Arc::clone(&self.context.process),
            leader,
            orders: orders_taken,
            inbound: inbound_taken,
            marks,
            listening,
            open,
            provider,
            rules,
        };
        let running = self.context.permits.run(parts).await?;
        self.watch_clock(&orders, unix_at_origin);
        let (handle, connects) = (LoopHandle { orders, inbound }, Some(self.connects()));
        Ok(Term { epoch, nonce, revision, pages: Vec::new(), handle, marks: pending, opened, running, connects })
    }

    /// The record of a mark.
    pub(crate) fn record(&self, pending: &Pending, nonce: u64) -> StateRecord {
        StateRecord {
            epoch: pending.epoch,
            leader: self.context.leader.clone(),
            nonce,
            mark: pending.mark.number.0,
            released: false,
            successor: None,
            saved: pending.moment.clone(),
            permit_parts: 0,
            levels: LevelRecord::all_of(&pending.mark.state.levels, &pending.mark.budget),
            keys: KeysRecord::of(&pending.mark.state.keys),
            freezes: freezes_of(&pending.mark.state.freezes),
            rules: pending.rules,
            server: self.context.store.server(),
        }
    }

    /// What was found, beside what was seen before.
    async fn legacy(&self, found: Found) -> Result<Legacy, StoreError> {
        let Found { revision, state } = found;
        Ok(match (state, &self.seen) {
            (FoundState::Newer(version), _) => {
                let reason = format!("its state is in format {version}, which a newer build wrote");
                return Err(StoreError::Unavailable(reason));
            }
            (FoundState::Record(record), Some(seen)) if seen.sequel(&record, revision) == Sequel::Earlier => {
                tracing::error!(resource = %self.resource.name(), "the store went back to an older state");
                self.outdated(&seen.record).await?
            }
            (FoundState::Record(record), _) => self.inherited(record, revision).await?,
            (FoundState::Nothing, Some(seen)) => {
                tracing::error!(resource = %self.resource.name(), "the stored state is gone");
                self.outdated(&seen.record).await?
            }
            (FoundState::Nothing, None) => Legacy::None,
            (FoundState::Damaged(damage, _), Some(seen)) => {
                tracing::error!(resource = %self.resource.name(), %damage, "the stored state is damaged");
                self.outdated(&seen.record).await?
            }
            (FoundState::Damaged(damage, Some(before)), None) => {
                tracing::error!(resource = %self.resource.name(), %damage, "the stored state is damaged; going on from the one before");
                self.outdated(&before).await?
            }
            (FoundState::Damaged(damage, None), None) => {
                tracing::error!(resource = %self.resource.name(), %damage, "the stored state is lost; every bucket starts empty");
                Legacy::Lost
            }
        })
    }

    async fn inherited(&self, record: Box<StateRecord>, revision: Revision) -> Result<Legacy, StoreError> {
        let name = self.resource.name();
        let permits = self.context.store.read_permits(name, &record).await?;
        let pages = self.context.store.read_pages(name, &record).await?;
        let there_for = match self.seen.as_ref().filter(|seen| seen.revision == revision && seen.record == *record) {
            Some(seen) => seen.certainly_there_for(self.now(), &Moment::now(), None),
            None => {
                let by_store = self.context.store.age(name, revision).await?;
                record.saved.certainly_past(&Moment::now(), Some(by_store))
            }
        };
        tracing::info!(resource = %name, epoch = record.epoch, %there_for, permits = permits.len(), "going on from the stored state");
        if self.is_continued(&record) {
            return Ok(Legacy::Record(record, permits, pages, there_for));
        }
        tracing::warn!(
            resource = %name,
            "the NATS server was started anew since the state was written, and may hold an older copy: limits of short periods start empty"
        );
        Ok(Legacy::Doubtful(record, permits, pages, there_for))
    }

    /// Whether the record is certainly the latest that was written: the server that held it then still runs, or this process has watched
    /// the store since before the server was started anew. In a cluster the other servers know.
    fn is_continued(&self, record: &StateRecord) -> bool {
        let server = self.context.store.server();
        is_continued(server.as_deref(), record.server.as_deref(), self.first_server.as_deref())
    }

    /// What has come in since may have been spent by somebody who is not known.
    async fn outdated(&self, record: &StateRecord) -> Result<Legacy, StoreError> {
        let pages = self.context.store.read_pages(self.resource.name(), record).await?;
        Ok(Legacy::Outdated(record.cautious_snapshot(pages), record.epoch))
    }
}

/// The core as its predecessor left it, in the next epoch. Where nobody knows that, wall time is above any epoch that was
/// counted up.
fn restore(resource: Resource, now: Time, legacy: Legacy) -> Scheduler<ReplyTo> {
    let core = match legacy {
        Legacy::None => {
            tracing::info!(resource = %resource.name(), start = ?resource.spec().start, "the store does not know the resource");
            Scheduler::new(resource, 1, now)
        }
        Legacy::Record(record, permits, pages, there_for) => {
            let epoch = record.epoch.saturating_add(1);
            Scheduler::restore(resource, epoch, now, now - there_for, &record.snapshot(&permits, pages))
        }
        Legacy::Doubtful(record, permits, pages, there_for) => {
            let epoch = unix_ms().max(record.epoch.saturating_add(1));
            let snapshot = record.snapshot(&permits, pages);
            Scheduler::restore(resource, epoch, now, now - there_for, &snapshot).without_stock(now)
        }
        Legacy::Outdated(snapshot, epoch) => {
            let epoch = unix_ms().max(epoch.saturating_add(1));
            Scheduler::restore(resource, epoch, now, now, &snapshot)
        }
        Legacy::Lost => Scheduler::cautious(resource, unix_ms(), now),
    };
    core.fenced().with_pages_from(rand::random::<u32>() / 2)
}

/// Whether the store that this `server` holds has lost no successor of a record: by the server that held it at the writing, and the one that
/// did when this process began to watch. A record that does not say was written under another.
fn is_continued(server: Option<&str>, written: Option<&str>, first: Option<&str>) -> bool {
    server.is_none() || written == server || first != server
}

/// Whether nobody has ever granted anything, as far as the store tells: either that is so, or there was another store.
fn is_fresh(found: &Found) -> bool {
    match &found.state {
        FoundState::Nothing => true,
        FoundState::Record(record) => record.epoch == 1 && record.mark == 1,
        FoundState::Damaged(..) | FoundState::Newer(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_trusted_as_far_as_it_was_watched() {
        // The server now, the one at the writing, the one at the beginning of this process; whether the record is the latest.
        let table = [
            (Some("b"), Some("b"), Some("b"), true),
            (Some("b"), Some("a"), Some("b"), false),
            (Some("b"), None, Some("b"), false),
            (Some("b"), Some("a"), Some("a"), true),
            (Some("b"), None, Some("a"), true),
            // A cluster.
            (None, None, None, true),
            (None, Some("a"), None, true),
        ];
        for (server, written, first, expected) in table {
            assert_eq!(is_continued(server, written, first), expected, "{server:?} {written:?} {first:?}");
        }
    }
}

//! Writes the state record of one term, by compare-and-set.

use crate::context::ProcessContext;
use crate::leadership::resource_state::ResourceState;
use crate::leadership::standby::witnesses::{LONGEST_RIDE, MAX_STANDBYS, PATIENCE, Witnesses};
use crate::permits::answers::loop_request::LoopState;
use crate::permits::watch::stall_detector::uptime;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::durability::checkpoint::Checkpoint;
use rampmeter_scheduler_core::durability::snapshot::NewPage;
use rampmeter_store::{KeysRecord, Revision, StateRecord, StoreError, StoredEntry, StoredState};

/// Writes the records of one term. A write fails if another term has written.
#[derive(Debug)]
pub(crate) struct StateWriter {
    nonce: u64,
    /// The revision that the next write replaces.
    revision: Revision,
    /// Pages of checkpoints, still to be written, which the next record may name.
    pages: Vec<NewPage>,
    /// The connection count when the last record was known to be of this term; `None` if uncertain.
    connects: Option<u64>,
    witnesses: Witnesses,
    /// When the last successful write began, as an [`uptime`].
    stored_at: Time,
}

impl StateWriter {
    /// Writes the first record of a term over the one at `revision`, which decides which scheduler leads. If the
    /// store takes it, the record read before was current, even if a lagging replica returned it.
    pub(crate) async fn begin(
        state: &mut ResourceState,
        first: &LoopState,
        revision: Revision,
    ) -> Result<Self, StoreError> {
        let nonce = rand::random();
        let record = record(&state.context, &state.name, first, nonce);
        let stored_at = uptime(state.now());
        let (store, name) = (state.context.store.clone(), state.name.clone());
        store.write_pages(&name, &first.checkpoint.state.new_pages).await?;
        let revision_before = revision;
        let revision = store.write(&name, &record, revision).await?;
        if revision_before > 0 {
            delete_pages_of_former_terms(state, record.clone());
        }
        let witnesses = Witnesses::of(&record);
        state.note(record, revision);
        Ok(StateWriter { nonce, revision, pages: Vec::new(), connects: Some(state.connects()), witnesses, stored_at })
    }

    /// Moves the new pages of a checkpoint to the next write.
    pub(crate) fn take_pages(&mut self, state: &mut LoopState) {
        self.pages.append(&mut state.checkpoint.state.new_pages);
    }

    pub(crate) async fn write_checkpoint(
        &mut self,
        state: &mut ResourceState,
        pending: &LoopState,
    ) -> Result<(), StoreError> {
        let record = record(&state.context, &state.name, pending, self.nonce);
        self.write_with_pages(state, record).await
    }

    /// Returns once the standbys hold a checkpoint that the store does not take in time. Never returns if
    /// there are none, or if the store has been silent for too long.
    pub(crate) fn witnessed<'p>(
        &self,
        state: &ResourceState,
        pending: &'p LoopState,
    ) -> impl Future<Output = ()> + use<'p> {
        let (context, resource) = (state.context.clone(), state.name.clone());
        let (nonce, witnesses, rides_until) = (self.nonce, self.witnesses.clone(), self.stored_at + LONGEST_RIDE);
        async move {
            tokio::time::sleep(PATIENCE).await;
            let record = record(&context, &resource, pending, nonce);
            witnesses.hold(&context, &resource, &record).await;
            if uptime(context.clock.now()) > rides_until {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Notes a failed write: the record is read before the next, as a bucket created again has new revisions.
    pub(crate) fn note_failure(&mut self) {
        self.connects = None;
    }

    /// Writes the last record of the term, and returns the number of permits it remembers.
    pub(crate) async fn write_handover(
        &mut self,
        state: &mut ResourceState,
        last: &LoopState,
        successor: Option<String>,
    ) -> Result<usize, StoreError> {
        let permits = &last.checkpoint.state.permits;
        let permit_parts = state.context.store.write_permits(&state.name, last.epoch, permits).await?;
        let record = StateRecord {
            released: true,
            successor,
            permit_parts,
            ..record(&state.context, &state.name, last, self.nonce)
        };
        self.write_with_pages(state, record).await?;
        Ok(permits.len())
    }

    /// Writes a record, after the pages it may name.
    async fn write_with_pages(&mut self, state: &mut ResourceState, record: StateRecord) -> Result<(), StoreError> {
        state.context.store.write_pages(&state.name, &self.pages).await?;
        self.write(state, record).await?;
        self.pages.clear();
        Ok(())
    }

    async fn write(&mut self, state: &mut ResourceState, record: StateRecord) -> Result<(), StoreError> {
        let (connects, begun) = (state.connects(), uptime(state.now()));
        self.witnesses.note_written(&record);
        // After a power loss a revision can occur twice, so on a new connection it proves nothing.
        if self.connects != Some(connects) {
            self.find_own(state).await?;
            self.connects = Some(connects);
        }
        let store = state.context.store.clone();
        self.revision = match store.write(&state.name, &record, self.revision).await {
            Ok(revision) => revision,
            // A write that timed out may have been done after all.
            Err(StoreError::Superseded) => {
                self.find_own(state).await?;
                store.write(&state.name, &record, self.revision).await?
            }
            Err(error @ (StoreError::TooLarge(_) | StoreError::Unavailable(_))) => return Err(error),
        };
        (self.witnesses, self.stored_at) = (Witnesses::of(&record), begun);
        state.note(record, self.revision);
        Ok(())
    }

    /// Finds the revision of this term's record. Overwrites one that is missing, damaged or too old, because this
    /// term's knowledge is still true. Fails if another term has written, since its leader may grant permits.
    async fn find_own(&mut self, state: &ResourceState) -> Result<(), StoreError> {
        let resource = &state.name;
        let StoredEntry { revision, state: found } = state.context.store.read(resource).await?;
        match found {
            StoredState::Record(found) if found.nonce == self.nonce => {}
            StoredState::Nothing | StoredState::Damaged(..) => {
                tracing::error!(%resource, "the stored state is gone or damaged; writing it anew");
            }
            StoredState::Record(_) | StoredState::Newer(_) => return Err(StoreError::Superseded),
        }
        if revision < self.revision {
            tracing::error!(%resource, revision, known = self.revision, "the store went back");
        }
        self.revision = revision;
        Ok(())
    }
}

fn record(context: &ProcessContext, resource: &Name, saved: &LoopState, nonce: u64) -> StateRecord {
    let LoopState { checkpoint: Checkpoint { number, state: snapshot }, discovered, moment, .. } = saved;
    let (server, mut standbys) = (context.store.server(), context.peers.standbys(context.clock.now(), resource));
    // A single server takes all connections with it when it stops.
    standbys.truncate(if server.is_none() { MAX_STANDBYS } else { 0 });
    StateRecord {
        epoch: saved.epoch,
        leader: context.leader.clone(),
        nonce,
        checkpoint: number.0,
        released: false,
        successor: None,
        standbys,
        saved: moment.clone(),
        permit_parts: 0,
        levels: snapshot.levels.clone(),
        keys: KeysRecord::of(&snapshot.keys),
        freezes: snapshot.freezes.clone(),
        unsettled: snapshot.unsettled.clone(),
        discovered: discovered.clone(),
        rules_revision: saved.rules_revision,
        server,
    }
}

/// Deletes pages of former terms that this term's first record does not name. First permits do not wait for it.
fn delete_pages_of_former_terms(state: &ResourceState, record: StateRecord) {
    let (store, resource) = (state.context.store.clone(), state.name.clone());
    tokio::spawn(async move {
        if let Err(error) = store.delete_pages_of_former_terms(&resource, &record).await {
            tracing::warn!(%resource, %error, "pages that no record names may be left in the store");
        }
    });
}

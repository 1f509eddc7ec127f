//! Writing the state record of one term, by compare-and-set.

use crate::leadership::resource_state::ResourceState;
use crate::permits::answers::loop_request::{Handover, PendingCheckpoint};
use rampmeter_scheduler_core::durability::checkpoint::Checkpoint;
use rampmeter_scheduler_core::durability::snapshot::NewPage;
use rampmeter_store::{DiscoveredRecord, KeysRecord, Revision, StateRecord, StoreError, StoredEntry, StoredState};

/// Writes the records of one term.
///
/// A record replaces only a record of the same term: if another term has written, the write fails.
#[derive(Debug)]
pub(crate) struct StateWriter {
    nonce: u64,
    /// The revision of the record that the next write replaces.
    revision: Revision,
    /// Pages of checkpoints that are not yet written: the next record may name them.
    pages: Vec<NewPage>,
    /// The count of connections when the last record was known to be of this term. `None` if that
    /// is not known any more.
    connects: Option<u64>,
}

impl StateWriter {
    /// Writes the first record of a term over the one at `revision`. This write decides which
    /// scheduler leads. If the store takes it, the record read before was current, even from a
    /// lagging replica.
    pub(crate) async fn begin(
        state: &mut ResourceState,
        first: &PendingCheckpoint,
        revision: Revision,
    ) -> Result<Self, StoreError> {
        let nonce = rand::random();
        let record = checkpoint_record(state, first, nonce);
        let (store, name) = (state.context().store.clone(), state.name().clone());
        store.write_pages(&name, &first.checkpoint.state.new_pages).await?;
        let revision_before = revision;
        let revision = store.write(&name, &record, revision).await?;
        if revision_before > 0 {
            delete_other_pages(state, record.clone());
        }
        state.note(record, revision);
        Ok(StateWriter { nonce, revision, pages: Vec::new(), connects: Some(state.connects()) })
    }

    /// Takes the pages that a checkpoint names, for the next write.
    pub(crate) fn take_pages(&mut self, pages: &mut Vec<NewPage>) {
        self.pages.append(pages);
    }

    /// Writes a checkpoint.
    pub(crate) async fn write_checkpoint(
        &mut self,
        state: &mut ResourceState,
        pending: &PendingCheckpoint,
    ) -> Result<(), StoreError> {
        let record = checkpoint_record(state, pending, self.nonce);
        self.write_with_pages(state, record).await
    }

    /// Notes that a write has failed, so that the record is read before the next one. A bucket that
    /// was made again meanwhile counts its revisions again.
    pub(crate) fn note_failure(&mut self) {
        self.connects = None;
    }

    /// Writes the last record of the term, and returns how many permits it remembers.
    pub(crate) async fn write_handover(
        &mut self,
        state: &mut ResourceState,
        handover: Handover,
        successor: Option<String>,
    ) -> Result<usize, StoreError> {
        let store = &state.context().store;
        let Handover { snapshot, discovered, epoch, moment, rules_revision, .. } = handover;
        let permit_parts = store.write_permits(state.name(), epoch, &snapshot.permits).await?;
        let record = StateRecord {
            epoch,
            leader: state.context().leader.clone(),
            nonce: self.nonce,
            checkpoint: u64::MAX,
            released: true,
            successor,
            saved: moment,
            permit_parts,
            levels: snapshot.levels,
            keys: KeysRecord::of(&snapshot.keys),
            freezes: snapshot.freezes,
            found: discovered.iter().map(DiscoveredRecord::from).collect(),
            rules_revision,
            server: store.server(),
        };
        self.write_with_pages(state, record).await?;
        Ok(snapshot.permits.len())
    }

    /// Writes a record, after the pages that it may name.
    async fn write_with_pages(&mut self, state: &mut ResourceState, record: StateRecord) -> Result<(), StoreError> {
        state.context().store.write_pages(state.name(), &self.pages).await?;
        self.write(state, record).await?;
        self.pages.clear();
        Ok(())
    }

    /// Writes a record over the last one of this term.
    async fn write(&mut self, state: &mut ResourceState, record: StateRecord) -> Result<(), StoreError> {
        let connects = state.connects();
        // After a power loss a revision can occur twice, so on a new connection it proves nothing.
        if self.connects != Some(connects) {
            self.find_own(state).await?;
            self.connects = Some(connects);
        }
        let store = state.context().store.clone();
        self.revision = match store.write(state.name(), &record, self.revision).await {
            Ok(revision) => revision,
            // A write that timed out may have been done after all.
            Err(StoreError::Superseded) => {
                self.find_own(state).await?;
                store.write(state.name(), &record, self.revision).await?
            }
            Err(error @ (StoreError::TooLarge(_) | StoreError::Unavailable(_))) => return Err(error),
        };
        state.note(record, self.revision);
        Ok(())
    }

    /// Takes the revision of the record, if it was written in this term. A record that is missing,
    /// damaged or too old is written again, because this term's knowledge is still true. Fails if
    /// another term has written the record, because its leader may be granting permits.
    async fn find_own(&mut self, state: &ResourceState) -> Result<(), StoreError> {
        let resource = state.name();
        let StoredEntry { revision, state: found } = state.context().store.read(resource).await?;
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

fn checkpoint_record(state: &ResourceState, pending: &PendingCheckpoint, nonce: u64) -> StateRecord {
    let PendingCheckpoint {
        checkpoint: Checkpoint { number, state: snapshot },
        discovered,
        epoch,
        moment,
        rules_revision,
        ..
    } = pending;
    StateRecord {
        epoch: *epoch,
        leader: state.context().leader.clone(),
        nonce,
        checkpoint: number.0,
        released: false,
        successor: None,
        saved: moment.clone(),
        permit_parts: 0,
        levels: snapshot.levels.clone(),
        keys: KeysRecord::of(&snapshot.keys),
        freezes: snapshot.freezes.clone(),
        found: discovered.iter().map(DiscoveredRecord::from).collect(),
        rules_revision: *rules_revision,
        server: state.context().store.server(),
    }
}

/// Deletes the pages of former terms that this term's first record does not name. A task does it,
/// so that the first permits do not wait.
fn delete_other_pages(state: &ResourceState, record: StateRecord) {
    let (store, resource) = (state.context().store.clone(), state.name().clone());
    tokio::spawn(async move {
        if let Err(error) = store.delete_other_pages(&resource, &record).await {
            tracing::warn!(%resource, %error, "pages that no record names may be left in the store");
        }
    });
}

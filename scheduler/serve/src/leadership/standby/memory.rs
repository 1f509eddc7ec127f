//! Holds checkpoints, on standbys, that the store has not taken.
//!
//! [Leadership](crate::leadership) explains how a leader and its successor use them: *a silent store*. A sealed
//! memory acknowledges nothing, so the former leader cannot go on either.

use crate::context::ProcessContext;
use crate::leadership::last_seen::LastSeenRecord;
use futures::StreamExt;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Time;
use rampmeter_store::{Revision, StateRecord};
use std::sync::{Arc, Mutex, PoisonError};

/// The acknowledgement of a checkpoint.
pub(crate) const HELD: &[u8] = b"held";
const REFUSED: &[u8] = b"refused";

/// The memory of one process for one resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct StandbyMemory(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    /// The position of the latest record in the store.
    stored: Option<Position>,
    held: Option<LastSeenRecord>,
    /// The revision that a scheduler is about to replace. Nothing is acknowledged until a later one is seen.
    sealed_at: Option<Revision>,
}

/// The position of a record in the sequence of all records of a resource.
#[derive(Clone, Copy, Debug)]
struct Position {
    epoch: Epoch,
    nonce: u64,
    checkpoint: u64,
}

impl Position {
    fn of(record: &StateRecord) -> Self {
        Position { epoch: record.epoch, nonce: record.nonce, checkpoint: record.checkpoint }
    }

    /// Returns whether a record here may have been written before one at `other`.
    fn is_behind(self, other: Position) -> bool {
        if self.nonce == other.nonce { self.checkpoint < other.checkpoint } else { self.epoch <= other.epoch }
    }
}

impl StandbyMemory {
    /// Holds a checkpoint. Returns `false` if the memory is sealed or has a later one.
    pub(crate) fn hold(&self, now: Time, record: StateRecord) -> bool {
        self.with(|memory| {
            let (position, held) = (Position::of(&record), memory.held.as_ref().map(|held| Position::of(&held.record)));
            let is_behind = memory.stored.into_iter().chain(held).any(|known| position.is_behind(known));
            let takes = memory.sealed_at.is_none() && !is_behind;
            if takes {
                memory.held = Some(LastSeenRecord { record, revision: 0, since: now, led_since: now });
            }
            takes
        })
    }

    /// Seals the memory until the store shows a record after `revision`. Returns the held checkpoint.
    pub(crate) fn seal(&self, revision: Revision) -> Option<LastSeenRecord> {
        self.with(|memory| {
            memory.sealed_at = memory.sealed_at.max(Some(revision));
            memory.held.clone()
        })
    }

    pub(crate) fn note_stored(&self, record: &StateRecord, revision: Revision) {
        self.with(|memory| {
            let position = Position::of(record);
            if memory.stored.is_none_or(|known| !position.is_behind(known)) {
                memory.stored = Some(position);
            }
            memory.sealed_at = memory.sealed_at.filter(|sealed| revision <= *sealed);
        });
    }

    /// Returns when a leader last sent a checkpoint to this memory.
    pub(crate) fn heard_at(&self) -> Option<Time> {
        self.with(|memory| memory.held.as_ref().map(|held| held.since))
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Memory) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves leaders that have checkpoints held, and successors that ask for them, until the process ends.
pub(crate) async fn answer(context: ProcessContext, resource: Name, memory: StandbyMemory) {
    let ProcessContext { client, subjects, store, clock, leader, .. } = context;
    let Ok(mut messages) = client.subscribe(subjects.witness(&resource, &leader)).await else { return };
    while let Some(message) = messages.next().await {
        let asked_at = std::str::from_utf8(&message.payload).ok().and_then(|text| text.parse().ok());
        let answer = match asked_at {
            Some(revision) => {
                memory.seal(revision).map(|held| store.sealed(&resource, &held.record)).unwrap_or_default()
            }
            None => {
                let record = store.unsealed(&resource, &message.payload);
                let is_held = record.is_ok_and(|record| memory.hold(clock.now(), record));
                if is_held { HELD } else { REFUSED }.to_vec()
            }
        };
        if let Some(reply) = message.reply {
            client.publish(reply, answer.into()).await.ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leadership::last_seen::tests::record;
    use rampmeter_protocol::time::Span;

    fn hold(memory: &StandbyMemory, record: StateRecord) -> bool {
        memory.hold(Time::ORIGIN + Span::from_secs(1), record)
    }

    #[test]
    fn a_memory_holds_what_is_later_than_all_it_knows() {
        // Epoch, nonce and checkpoint of what the store has shown and of what a leader sends, and whether it is held.
        for (stored, sent, held) in [
            ((7, 1, 3), (7, 1, 4), true),
            ((7, 1, 3), (7, 1, 3), true),
            ((7, 1, 3), (7, 1, 2), false),
            ((7, 1, 3), (8, 2, 1), true),
            ((7, 1, 3), (6, 2, 9), false),
            ((7, 1, 3), (7, 2, 9), false),
        ] {
            let memory = StandbyMemory::default();
            memory.note_stored(&record(stored.0, stored.1, stored.2), 40);
            assert_eq!(hold(&memory, record(sent.0, sent.1, sent.2)), held, "{stored:?}, then {sent:?}");
        }
    }

    #[test]
    fn a_sealed_memory_holds_nothing_until_the_store_shows_a_later_revision() {
        let memory = StandbyMemory::default();
        memory.note_stored(&record(7, 1, 3), 40);
        assert!(hold(&memory, record(7, 1, 4)));
        assert_eq!(memory.seal(40).unwrap().record.checkpoint, 4);
        assert!(!hold(&memory, record(7, 1, 5)));
        memory.note_stored(&record(7, 1, 3), 40);
        assert!(!hold(&memory, record(7, 1, 5)), "the store has shown this revision before");
        memory.note_stored(&record(7, 1, 4), 41);
        assert!(hold(&memory, record(7, 1, 5)));
        assert!(!hold(&memory, record(7, 1, 4)), "a late message");
    }
}

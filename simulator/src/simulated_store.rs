//! The stored state and the checkpoint being written, each with the time at which it was taken.

use crate::incident::WRITE;
use rampmeter_discovery::DiscoveredSnapshot;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::checkpoint_number::CheckpointNumber;
use rampmeter_scheduler_core::durability::checkpoint::Checkpoint;
use rampmeter_scheduler_core::durability::snapshot::Snapshot;

#[derive(Clone, Debug, Default)]
pub(crate) struct StoredState {
    pub(crate) state: Snapshot,
    pub(crate) discovered: Vec<DiscoveredSnapshot>,
}

#[derive(Debug, Default)]
pub(crate) struct SimulatedStore {
    held: Option<(Time, StoredState)>,
    writing: Option<(Time, Checkpoint, Vec<DiscoveredSnapshot>)>,
    /// No write ends before.
    silent_until: Time,
}

impl SimulatedStore {
    /// When the current write ends, or when the next one begins, which is `due`.
    pub(crate) fn next(&self, due: Option<Time>) -> Option<Time> {
        self.writing.as_ref().map(|(taken, ..)| self.silent_until.max(*taken) + WRITE).or(due)
    }

    pub(crate) fn fall_silent(&mut self, now: Time, span: Span) {
        self.silent_until = self.silent_until.max(now + span);
    }

    pub(crate) fn write(&mut self, now: Time, checkpoint: Option<Checkpoint>, discovered: Vec<DiscoveredSnapshot>) {
        self.writing = checkpoint.map(|checkpoint| (now, checkpoint, discovered));
    }

    /// Removes the checkpoint whose write has ended by now.
    pub(crate) fn take_written(&mut self, now: Time) -> Option<CheckpointNumber> {
        self.next(None).filter(|end| *end <= now)?;
        self.end_write()
    }

    fn end_write(&mut self) -> Option<CheckpointNumber> {
        let (taken, checkpoint, discovered) = self.writing.take()?;
        self.held = Some((taken, StoredState { state: checkpoint.state, discovered }));
        Some(checkpoint.number)
    }

    /// The state for a successor, and when it was taken. A write in progress arrives or is lost.
    pub(crate) fn last(&mut self, arrives: bool) -> Option<(Time, StoredState)> {
        if arrives {
            self.end_write();
        }
        self.writing = None;
        self.held.clone()
    }

    /// Stores the last state of a term, after which nothing is written.
    pub(crate) fn end_term(&mut self, now: Time, state: StoredState) {
        (self.held, self.writing) = (Some((now, state)), None);
    }
}

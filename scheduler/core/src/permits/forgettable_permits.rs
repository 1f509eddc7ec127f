//! Permits that may be forgotten before others, because they hold next to nothing of any limit.

use crate::collections::Slot;
use crate::policy::RETENTION;
use rampmeter_protocol::time::Time;
use std::collections::VecDeque;

/// Such permits in the order in which they are forgotten, each with the time from which its
/// retention counts.
#[derive(Debug, Default)]
pub(crate) struct ForgettablePermits(VecDeque<(Time, Slot)>);

impl ForgettablePermits {
    pub(crate) fn push(&mut self, slot: Slot, since: Time) {
        self.0.push_back((since, slot));
    }

    pub(crate) fn pop(&mut self) -> Option<Slot> {
        self.0.pop_front().map(|(_, slot)| slot)
    }

    /// The oldest, if it has been remembered for long enough.
    pub(crate) fn pop_expired(&mut self, now: Time) -> Option<Slot> {
        self.0.pop_front_if(|(since, _)| *since + RETENTION <= now).map(|(_, slot)| slot)
    }

    /// Since when the oldest is idle.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.0.front().map(|(since, _)| *since)
    }

    /// Takes a permit out; false if it is not here.
    pub(crate) fn take_out(&mut self, slot: Slot) -> bool {
        let position = self.0.iter().rposition(|(_, idle)| *idle == slot);
        position.and_then(|position| self.0.remove(position)).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

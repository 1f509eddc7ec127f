//! The starts that a dispatch holds, and its progress.

use crate::collections::Slot;
use crate::limits::StartKey;
use crate::queue::Needs;
use rampmeter_policy::ids::{ClassId, LimitId};
use rampmeter_policy::{Bill, LimitSet};
use rampmeter_protocol::time::Time;
use std::sync::Arc;

/// The most starts, refusals and examined keys of one event, which take a few hundred microseconds.
const MAX_STEPS: usize = 256;

/// The most requests that wait for settles while smaller ones behind them are tried.
const MAX_PASSED: usize = 32;

#[derive(Debug)]
pub(crate) struct HeldStart {
    pub(crate) class: ClassId,
    pub(crate) slot: Slot,
    pub(crate) bill: Arc<Bill>,
    pub(crate) start: StartKey,
    /// When the start comes within the horizon. If past, it waits for the store or proven stock.
    pub(crate) due: Time,
    pub(crate) limit: LimitId,
}

/// The starts that a dispatch holds, and the steps that it has left.
/// Invariant: nothing is held between two events.
#[derive(Debug, Default)]
pub(crate) struct DispatchPlan {
    pub(super) next: Option<Time>,
    pub(super) holds: Vec<HeldStart>,
    /// Requests of these classes and needs have no alternative left that is not blocked.
    pub(super) exhausted: Vec<(ClassId, Needs)>,
    /// Requests that wait for settles of calls in flight, and the first reset of their quotas.
    passed: Vec<Slot>,
    pub(super) next_reset: Option<Time>,
    steps_left: usize,
}

impl DispatchPlan {
    pub(crate) fn begin(&mut self) {
        assert!(self.holds.is_empty(), "the last dispatch has withdrawn all holds");
        self.exhausted.clear();
        self.passed.clear();
        self.next_reset = None;
        self.steps_left = MAX_STEPS;
    }

    pub(crate) fn has_steps(&self) -> bool {
        self.steps_left > 0
    }

    /// Counts a step, if this event has any left.
    pub(crate) fn take_step(&mut self) -> bool {
        let has_step = self.has_steps();
        self.steps_left -= usize::from(has_step);
        has_step
    }

    pub(crate) fn is_held(&self, slot: Slot) -> bool {
        self.holds.iter().any(|hold| hold.slot == slot) || self.passed.contains(&slot)
    }

    /// Lets a request wait for settles until its quota is reset, and others of its needs go first
    /// meanwhile: if many wait, none does.
    pub(super) fn pass(&mut self, class: ClassId, needs: Needs, slot: Slot, reset: Time) {
        match self.passed.len() < MAX_PASSED {
            true => self.passed.push(slot),
            false => self.exhausted.push((class, needs)),
        }
        self.next_reset = self.next_reset.into_iter().chain([reset]).min();
    }

    pub(crate) fn holds_of(&self, class: ClassId) -> impl Iterator<Item = &HeldStart> {
        self.holds.iter().filter(move |hold| hold.class == class)
    }

    /// Whether each alternative of requests of a class with these needs is blocked.
    pub(crate) fn is_exhausted(&self, class: ClassId, needs: Needs) -> bool {
        self.exhausted.contains(&(class, needs))
    }

    /// Returns the limits for which requests of a class are held.
    pub(crate) fn blocked(&self, class: ClassId) -> LimitSet {
        self.holds_of(class).fold(LimitSet::NONE, |blocked, hold| blocked.with(hold.limit))
    }
}

//! Using what is left of a window.
//!
//! Whoever does not fit into what is left of a window waits for the next one, and what is left is of no use to it. Those of its
//! class who fit start meanwhile, in their order. It keeps its own start, so that they delay nobody; and they pay for theirs as if
//! their turns had come, so that none has more than its share for long.

use super::Scheduler;
use super::dispatch::HeldStart;
use crate::collections::Slot;
use crate::ids::ClassId;
use crate::policy::{Bill, LimitSet};
use crate::queue::StartReason;
use rampmeter_protocol::time::{Span, Time};

/// So many of those behind are looked at: nearly all that is left is used, and a long line costs no more than a short one.
const MOST_LOOKED_AT: usize = 64;

impl<R: Clone> Scheduler<R> {
    /// Whether a newcomer of `class`, who could start at `alone`, may do so before anybody is looked at again, because others of it are
    /// held for a window.
    pub(crate) fn may_backfill(&self, class: ClassId, alone: Time) -> bool {
        let held = self.queues.class(class).held().and(self.resource.windowed());
        let before = |next: Time| alone - self.resource.spec().horizon < next;
        held != LimitSet::default() && self.next_plan.is_none_or(before)
    }

    /// Starts those of `class` who fit into what is left of the windows that others of it are held for.
    pub(crate) fn backfill(&mut self, now: Time, class: ClassId) {
        let windowed = self.resource.windowed();
        let held: Vec<&HeldStart> =
            self.holds.iter().filter(|hold| hold.class == class && windowed.has(hold.limit)).collect();
        let Some(until) = held.iter().map(|hold| hold.key.at).min() else { return };
        let amount = |hold: &HeldStart| self.permits.get(hold.slot).bill.get(hold.limit);
        // A request that needs as much as the held one cannot fit either.
        let fits = |bill: &Bill| held.iter().all(|hold| bill.get(hold.limit) < amount(hold));
        let is_held = |slot: Slot| self.holds.iter().any(|hold| hold.slot == slot);
        let behind = self.queues.class(class).order().front(MOST_LOOKED_AT);
        let behind = behind.filter(|(slot, bill)| fits(bill) && !is_held(*slot));
        let behind: Vec<Slot> = behind.map(|(slot, _)| slot).collect();
        let tier = self.tier(class);
        for slot in behind {
            if self.blocking_key(now, slot, tier).is_none() {
                self.start_or_hold(now, slot, tier, StartReason::Backfilled, until - Span::from_nanos(1));
            }
        }
    }
}

//! Backfill: using capacity of a window that would be lost when the window ends.
//!
//! A request that does not fit into the rest of a window waits for the next window. Meanwhile
//! smaller requests of its class start in their order. They delay no request, as the held start is
//! kept. They pay for their starts as in their turns, so that none has more than its share for
//! long.

use super::Scheduler;
use super::dispatch_plan::HeldStart;
use crate::collections::Slot;
use crate::ids::ClassId;
use crate::policy::{Bill, LimitSet};
use crate::queue::StartReason;
use rampmeter_protocol::time::{Span, Time};

/// Requests that are tried: enough to use nearly all of the rest, however long the queue is.
const MAX_CANDIDATES: usize = 64;

impl<R: Clone> Scheduler<R> {
    /// Whether a new request of `class` may backfill a window before the next dispatch.
    /// `earliest` is the start that the request would get if no other request waited.
    pub(crate) fn may_backfill(&self, class: ClassId, earliest: Time) -> bool {
        let contended = self.queues.class(class).contended().and(self.resource.windowed());
        let before = |next: Time| earliest - self.resource.spec().horizon < next;
        contended != LimitSet::default() && self.plan.next().is_none_or(before)
    }

    /// Starts requests of `class` that fit into the rest of the windows for which others are held.
    pub(crate) fn backfill(&mut self, now: Time, class: ClassId) {
        let windowed = self.resource.windowed();
        let held: Vec<&HeldStart> = self.plan.holds_of(class).filter(|hold| windowed.has(hold.limit)).collect();
        let Some(until) = held.iter().map(|hold| hold.start.at).min() else { return };
        let amount = |hold: &HeldStart| self.permits.get(hold.slot).bill.get(hold.limit);
        // A request that needs as much as the held one cannot fit either.
        let fits = |bill: &Bill| held.iter().all(|hold| bill.get(hold.limit) < amount(hold));
        let is_held = |slot: Slot| self.plan.holds().any(|hold| hold.slot == slot);
        let candidates = self.queues.class(class).order().front(MAX_CANDIDATES);
        let candidates = candidates.filter(|(slot, bill)| fits(bill) && !is_held(*slot));
        let candidates: Vec<Slot> = candidates.map(|(slot, _)| slot).collect();
        let tier = self.resource.tier(class);
        for slot in candidates {
            if self.blocking_key(now, slot, tier).is_none() {
                self.start_or_hold(now, slot, tier, StartReason::Backfilled, until - Span::from_nanos(1));
            }
        }
    }
}

//! Backfill: using capacity of a window that would be lost when the window ends.
//!
//! A request that does not fit into the rest of a window waits for the next window. Meanwhile
//! smaller requests of its class start in their order. They delay no request, because the held
//! start is kept. Their starts count towards their clients' shares, so that no client has more than
//! its share for long.

use super::plan::{DispatchPlan, HeldStart};
use crate::collections::Slot;
use crate::ids::ClassId;
use crate::policy::{Bill, LimitSet};
use crate::scheduler::wait_estimator::WaitEstimator;
use rampmeter_protocol::time::Time;

/// The most requests that are tried: enough to use nearly all of the rest, even if the queue is
/// long.
const MAX_CANDIDATES: usize = 64;

/// Whether a new request of `class` may backfill a window before the next dispatch.
/// `earliest` is the start that the request would get if no other request waited.
pub(in crate::scheduler) fn may_backfill<R>(
    waits: &WaitEstimator<'_, R>,
    plan: &DispatchPlan,
    class: ClassId,
    earliest: Time,
) -> bool {
    let contended = waits.queues.class(class).contended().and(waits.resource.windowed());
    let before = |next: Time| earliest - waits.resource.spec().horizon < next;
    contended != LimitSet::NONE && plan.next().is_none_or(before)
}

/// The first start that `class` holds in a window, and the requests of `class` that fit into the
/// rest of these windows.
pub(in crate::scheduler) fn candidates<R>(
    waits: &WaitEstimator<'_, R>,
    plan: &DispatchPlan,
    class: ClassId,
) -> Option<(Time, Vec<Slot>)> {
    let windowed = waits.resource.windowed();
    let held: Vec<&HeldStart> = plan.holds_of(class).filter(|hold| windowed.has(hold.limit)).collect();
    let until = held.iter().map(|hold| hold.start.at).min()?;
    let amount = |hold: &HeldStart| waits.permits.get(hold.slot).bill.get(hold.limit);
    // A request that needs as much as the held one cannot fit either.
    let fits = |bill: &Bill| held.iter().all(|hold| bill.get(hold.limit) < amount(hold));
    let is_held = |slot: Slot| plan.holds().any(|hold| hold.slot == slot);
    let front = waits.queues.class(class).order().front(MAX_CANDIDATES);
    let fitting = front.filter(|(slot, bill)| fits(bill) && !is_held(*slot));
    Some((until, fitting.map(|(slot, _)| slot).collect()))
}

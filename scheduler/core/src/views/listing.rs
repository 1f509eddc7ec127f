//! Which waiting requests an explanation lists, page by page.

use crate::collections::Slot;
use crate::ids::ClassId;
use crate::queue::{ClassQueue, Waiting};
use crate::scheduler::wait_estimator::WaitEstimator;

/// The largest number of requests to list; people read no more.
const MAX_LISTED: usize = 10;
/// Requests in key queues that are counted one by one, which takes a fraction of a millisecond.
const MAX_LISTED_COUNT: usize = 10_000;

/// A page of waiting requests, and how many follow it.
pub(super) struct RequestPage {
    pub(super) slots: Vec<Slot>,
    pub(super) more: u64,
}

/// The first of the `waiting` requests ahead of the one in `slot`. They are in its key queue, or in
/// all class queues and then in key queues.
pub(super) fn page_ahead_of<R>(waits: &WaitEstimator<'_, R>, slot: Slot, waiting: u64) -> RequestPage {
    let count = MAX_LISTED.min(usize::try_from(waiting).unwrap_or(usize::MAX));
    let own = waits.permits.get(slot).as_waiting();
    let slots: Vec<Slot> = match own.and_then(|own| waits.key_queue_of(own)) {
        Some((_, key_queue)) => key_queue.iter().take(count).collect(),
        None => listed_after(waits, None, count),
    };
    RequestPage { more: waiting - slots.len() as u64, slots }
}

/// The first waiting requests behind the one in `after`. If that request does not wait, or if there
/// is none, the requests at the front.
pub(super) fn page_after<R>(waits: &WaitEstimator<'_, R>, after: Option<Slot>) -> RequestPage {
    let after = after.filter(|slot| waits.permits.get(*slot).as_waiting().is_some());
    let slots = listed_after(waits, after, MAX_LISTED);
    RequestPage { more: slots.last().map_or(0, |last| count_after(waits, *last)), slots }
}

fn listed_after<R>(waits: &WaitEstimator<'_, R>, after: Option<Slot>, count: usize) -> Vec<Slot> {
    let cursor = after.map(|slot| (slot, waits.permits.get(slot).waiting()));
    let in_order = class_queues(waits).flat_map(|(class, queue)| {
        let is_listed = cursor.is_none_or(|(_, last)| last.at_key.is_none() && last.class <= class);
        let behind = cursor.filter(|(_, last)| last.class == class).map(|(slot, last)| (last.position.turn, slot));
        queue.order().front_after(behind, if is_listed { count } else { 0 }).map(|(slot, _)| slot)
    });
    in_order.chain(in_key_queues_after(waits, cursor.map(|(_, last)| last))).take(count).collect()
}

/// The requests in key queues that are listed behind `last`.
fn in_key_queues_after<'a, R>(
    waits: &WaitEstimator<'a, R>,
    last: Option<&'a Waiting<R>>,
) -> impl Iterator<Item = Slot> + use<'a, R> {
    let last = last.filter(|last| last.at_key.is_some());
    class_queues(waits).flat_map(move |(class, queue)| -> Box<dyn Iterator<Item = Slot> + 'a> {
        match last {
            Some(last) if class < last.class => Box::new(std::iter::empty()),
            Some(last) if class == last.class => Box::new(queue.waiting_for_keys_after(last)),
            Some(_) | None => Box::new(queue.waiting_for_keys()),
        }
    })
}

/// How many requests are listed behind the waiting one in `slot`.
fn count_after<R>(waits: &WaitEstimator<'_, R>, slot: Slot) -> u64 {
    let last = waits.permits.get(slot).waiting();
    if last.at_key.is_some() {
        return in_key_queues_after(waits, Some(last)).take(MAX_LISTED_COUNT).count() as u64;
    }
    let (ahead, _) = waits.queues.class(last.class).order().ahead_of(waits.resource, last.position.turn);
    let before: usize = waits.queues.before(last.class).iter().map(|queue| queue.order().len()).sum();
    (waits.queues.waiting() - before - ahead - 1) as u64
}

fn class_queues<'a, R>(waits: &WaitEstimator<'a, R>) -> impl Iterator<Item = (ClassId, &'a ClassQueue)> + use<'a, R> {
    (0..).map(ClassId).zip(waits.queues.classes())
}

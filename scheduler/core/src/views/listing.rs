//! Which waiting requests an explanation lists.

use crate::collections::Slot;
use crate::scheduler::wait_estimator::WaitEstimator;

/// The largest number of requests to list; people read no more.
const MAX_LISTED: usize = 10;

/// The first of the `waiting` requests ahead of the one in `about`, or of all that wait. They are in
/// its key queue, or in all class queues and then in key queues.
pub(super) fn listed<R>(waits: &WaitEstimator<'_, R>, about: Option<Slot>, waiting: u64) -> Vec<Slot> {
    let count = MAX_LISTED.min(usize::try_from(waiting).unwrap_or(usize::MAX));
    let own = about.and_then(|slot| waits.permits.get(slot).as_waiting());
    if let Some((_, key_queue)) = own.and_then(|own| waits.key_queue_of(own)) {
        return key_queue.iter().take(count).collect();
    }
    let classes = waits.queues.classes();
    let in_turn = classes.iter().flat_map(|queue| queue.order().front(count).map(|(slot, _)| slot));
    in_turn.chain(classes.iter().flat_map(|queue| queue.waiting_for_keys())).take(count).collect()
}

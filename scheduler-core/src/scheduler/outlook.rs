//! When a request will probably start, behind those that wait.

use super::Scheduler;
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::ids::ClassId;
use crate::ledger::{Backlog, Offer};
use crate::policy::{Bill, KeyCharge};
use crate::queue::QueueDemand;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    /// The earliest start behind all waiting requests of the same and of more urgent classes.
    pub(crate) fn offer_behind_queue(&self, now: Time, class: ClassId, bill: &Bill) -> Offer {
        let tier = self.resource.tier(class);
        let mut behind = Offer { at: now, limited_by: None };
        if self.queues.through(class).iter().any(|queue| queue.waiting() > 0) {
            let backlog = self.queues.backlog_through(&self.resource, class);
            behind = self.ledger.paid_after(now, &backlog, |charge| self.key_demand(charge, class), bill, tier);
        }
        let offer = self.ledger.earliest(behind.at, bill, tier);
        Offer { limited_by: offer.limited_by.or(behind.limited_by), ..offer }
    }

    /// How many requests are ahead of a waiting one, and when it will probably start. During a
    /// change of limits neither is known of all requests.
    pub(crate) fn outlook(&self, now: Time, slot: Slot) -> (u64, Offer) {
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        if self.is_former(waiting) {
            return (self.waiting() as u64, Offer { at: now, limited_by: None });
        }
        if let Some((limit, key_queue)) = self.key_queue_of(waiting) {
            let QueueDemand { count, backlog } = key_queue.ahead_of(waiting.key_position());
            let of_key = |charge: &KeyCharge| if charge.limit == limit { backlog } else { Credit::ZERO };
            let (shared, tier) = (Backlog::none(&self.resource), self.resource.tier(waiting.class));
            return (count as u64, self.ledger.paid_after(now, &shared, of_key, &permit.bill, tier));
        }
        let (more_urgent, own) = (self.queues.before(waiting.class), self.queues.class(waiting.class));
        let (count, mut backlog) = own.order().ahead_of(&self.resource, waiting.position.turn);
        backlog.add_all(&self.queues.backlog_before(&self.resource, waiting.class));
        // Later requests may go first.
        for (limit, refill) in own.taken_before(&waiting.position) {
            backlog.raise(limit, self.resource[limit].rate().refill_within(refill));
        }
        let ahead = count + more_urgent.iter().map(|queue| queue.order().len()).sum::<usize>();
        let tier = self.resource.tier(waiting.class);
        let paid = self.ledger.paid_after(now, &backlog, |_| Credit::ZERO, &permit.bill, tier);
        (ahead as u64, Offer { at: own.probable_start(now, paid.at), ..paid })
    }
}

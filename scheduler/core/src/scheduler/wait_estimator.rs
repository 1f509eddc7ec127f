//! When a waiting request will probably start, and what it waits for.

use super::former_limits::FormerLimits;
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::fencing::Term;
use crate::ids::{ClassId, LimitId, Tier};
use crate::ledger::{Backlog, Ledger, Offer};
use crate::limits::{StartKey, just_past};
use crate::permits::{Permit, Permits, SentStarts};
use crate::policy::{Bill, KeyCharge, Resource};
use crate::queue::{KeyQueue, KeyQueuePosition, QueueDemand, Queues, Waiting};
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::time::Time;

/// All waiting requests at some time, and what they wait for.
#[derive(Debug)]
pub(crate) struct WaitEstimator<'a, R> {
    pub(crate) now: Time,
    pub(crate) resource: &'a Resource,
    pub(super) former: &'a FormerLimits,
    pub(crate) ledger: &'a Ledger,
    pub(crate) permits: &'a Permits<R>,
    pub(crate) queues: &'a Queues,
    pub(super) term: &'a Term,
    pub(super) sent: &'a SentStarts,
}

/// Whether a request has waited for longer than its class allows.
pub(super) fn starved(resource: &Resource, now: Time) -> impl Fn(KeyQueuePosition) -> bool {
    move |position| {
        let max = resource.classes()[position.class.index()].max_starvation;
        max.is_some_and(|max| position.arrival.at + max <= now)
    }
}

impl<'a, R> WaitEstimator<'a, R> {
    pub(crate) fn epoch(&self) -> Epoch {
        self.term.epoch()
    }

    /// Whether the store allows this start.
    pub(crate) fn is_covered(&self, bill: &Bill, start: Time) -> bool {
        self.term.budget().covers(self.resource, bill, start)
    }

    /// Whether a request could start if the store had confirmed more, or if answers arrived.
    pub(crate) fn is_held_by_store(&self, bill: &Bill) -> bool {
        self.sent.are_late() || !self.is_covered(bill, self.now)
    }

    /// The limits by which a waiting request is charged.
    pub(crate) fn limits_of(&self, waiting: &Waiting<R>) -> &'a Resource {
        self.former.after(waiting.version.changes).unwrap_or(self.resource)
    }

    /// The earliest start behind all waiting requests of the same and of more urgent classes.
    pub(crate) fn offer_behind_queue(&self, class: ClassId, bill: &Bill) -> Offer {
        let tier = self.resource.tier(class);
        let mut behind = Offer { at: self.now, limited_by: None };
        if self.queues.through(class).iter().any(|queue| queue.waiting() > 0) {
            let backlog = self.queues.backlog_through(self.resource, class);
            behind = self.ledger.paid_after(self.now, &backlog, |charge| self.key_demand(charge, class), bill, tier);
        }
        let offer = self.ledger.earliest(behind.at, bill, tier);
        Offer { limited_by: offer.limited_by.or(behind.limited_by), ..offer }
    }

    /// How many requests are ahead of a waiting one, and when it will probably start. During a
    /// change of limits, neither is known for requests without a turn.
    pub(crate) fn outlook(&self, slot: Slot) -> (u64, Offer) {
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        if self.queues.is_former(waiting) {
            return (self.queues.waiting() as u64, Offer { at: self.now, limited_by: None });
        }
        let tier = self.resource.tier(waiting.class);
        if let Some((limit, key_queue)) = self.key_queue_of(waiting) {
            let QueueDemand { count, backlog } = key_queue.ahead_of(waiting.key_position());
            let of_key = |charge: &KeyCharge| if charge.limit == limit { backlog } else { Credit::ZERO };
            let shared = Backlog::none(self.resource);
            return (count as u64, self.ledger.paid_after(self.now, &shared, of_key, &permit.bill, tier));
        }
        let (more_urgent, own) = (self.queues.before(waiting.class), self.queues.class(waiting.class));
        let (count, mut backlog) = own.order().ahead_of(self.resource, waiting.position.turn);
        backlog.add_all(&self.queues.backlog_before(self.resource, waiting.class));
        // Later requests may go first.
        for (limit, refill) in own.taken_before(&waiting.position) {
            backlog.raise(limit, self.resource[limit].rate().refill_within(refill));
        }
        let ahead = count + more_urgent.iter().map(|queue| queue.order().len()).sum::<usize>();
        let paid = self.ledger.paid_after(self.now, &backlog, |_| Credit::ZERO, &permit.bill, tier);
        (ahead as u64, Offer { at: own.probable_start(self.now, paid.at), ..paid })
    }

    /// The first key that holds a request up: its bucket cannot pay within the horizon, or another
    /// request in its queue goes first.
    pub(crate) fn blocking_key(&self, slot: Slot, tier: Tier) -> Option<&'a KeyCharge> {
        let permit = self.permits.get(slot);
        let (position, latest) = (permit.waiting().key_position(), self.now + self.resource.spec().horizon);
        permit.bill.keyed().find(|charge| {
            let key_queue = self.queue_of_key(charge);
            key_queue.is_some_and(|key_queue| key_queue.goes_before(position, starved(self.resource, self.now)))
                || self.earliest_of_key(position, charge, tier) > latest
        })
    }

    /// The earliest start that a key can pay at this position, besides the amount that it keeps for
    /// another request.
    pub(crate) fn earliest_of_key(&self, position: KeyQueuePosition, charge: &KeyCharge, tier: Tier) -> Time {
        let limit = self.ledger.keys.limit_of(charge);
        let mut bucket = self.ledger.keys.bucket(self.now, charge.limit, &charge.key);
        let slot = self.ledger.keys.find(charge.limit, &charge.key);
        if let Some(holder) = slot.and_then(|slot| self.kept_for_before(position, slot)) {
            let (waiting, kept) = (holder.waiting(), holder.bill.get(charge.limit));
            let its_tier = self.resource.tier(waiting.class);
            let at = self.ledger.earliest(self.now, &holder.bill, its_tier).at.max(just_past(self.now));
            let start = StartKey { at, serial: waiting.arrival.serial };
            bucket.to_mut().commit(limit, self.now, start, limit.start_cost(kept, its_tier));
        }
        bucket.earliest(limit, self.now, limit.start_cost(charge.amount, tier))
    }

    /// The request for which a key keeps something, if it waits for another key and goes before
    /// `position`.
    pub(crate) fn kept_for_before(&self, position: KeyQueuePosition, bucket: Slot) -> Option<&'a Permit<R>> {
        let key_queue = self.queues.keys.get(bucket)?;
        let holder = self.permits.get(key_queue.kept_for_before(position, starved(self.resource, self.now))?);
        holder.waiting().at_key.map(|_| holder)
    }

    /// The key queue that a request waits in, and the limit of its key.
    pub(crate) fn key_queue_of(&self, waiting: &Waiting<R>) -> Option<(LimitId, &'a KeyQueue)> {
        let bucket = waiting.at_key.filter(|_| !self.queues.is_former(waiting))?;
        Some((self.ledger.keys.get(bucket)?.limit, self.queues.keys.get(bucket)?))
    }

    /// The demand for a key by requests of this class and of more urgent ones. The request for
    /// which the key keeps an amount counts, too.
    fn key_demand(&self, charge: &KeyCharge, class: ClassId) -> Credit {
        let Some(queue) = self.queue_of_key(charge) else { return Credit::ZERO };
        let holder =
            queue.kept_for().filter(|(position, _)| position.class <= class).map(|(_, slot)| self.permits.get(slot));
        let kept = holder.filter(|holder| holder.waiting().at_key.is_some());
        let rate = self.ledger.keys.limit_of(charge).rate();
        queue.through(class).backlog + kept.map_or(Credit::ZERO, |holder| rate.credit(holder.bill.get(charge.limit)))
    }

    fn queue_of_key(&self, charge: &KeyCharge) -> Option<&'a KeyQueue> {
        self.queues.keys.get(self.ledger.keys.find(charge.limit, &charge.key)?)
    }

    /// When each request that may starve is due for promotion.
    pub(crate) fn promotions(&self) -> impl Iterator<Item = (Time, ClassId, Slot)> + use<'a, R> {
        let queues = self.queues.classes().iter().zip(self.resource.classes_by_id());
        queues.flat_map(|(queue, (id, class))| queue.promotions(class).map(move |(at, slot)| (at, id, slot)))
    }

    /// The requests that are due for promotion, the longest overdue first.
    pub(crate) fn starving(&self) -> Vec<(ClassId, Slot)> {
        let mut due: Vec<(Time, ClassId, Slot)> = self.promotions().filter(|(at, ..)| *at <= self.now).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, class, slot)| (class, slot)).collect()
    }
}

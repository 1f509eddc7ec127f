//! When a waiting request will probably start, and what it waits for.

use super::Scheduler;
use crate::collections::Slot;
use crate::ledger::{Backlog, Offer};
use crate::limits::{StartKey, just_past};
use crate::permits::Permit;
use crate::queue::{self, KeyQueue, QueueDemand, Waiting};
use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::ids::{ClassId, LimitId, Tier};
use rampmeter_policy::{Bill, KeyCharge};
use rampmeter_protocol::time::Time;

impl<R> Scheduler<R> {
    pub(crate) fn is_covered(&self, bill: &Bill, start: Time) -> bool {
        self.term.budget.covers(&self.resource, bill, start)
    }

    /// Whether a request could start if the store had confirmed more, or if answers arrived.
    pub(crate) fn is_held_by_store(&self, bill: &Bill) -> bool {
        self.answers_are_late || !self.is_covered(bill, self.now)
    }

    /// Returns the earliest start behind all waiting requests of the same and of more urgent
    /// classes, and behind promoted requests for the same limits.
    pub(crate) fn offer_behind_queue(&self, class: ClassId, bill: &Bill) -> Offer {
        let tier = self.resource.tier(class);
        let mut behind = Offer { at: self.now, limited_by: None };
        let promoted = self.promoted_behind(class, bill);
        if !promoted.is_empty() || self.queues.through(class).iter().any(|queue| queue.waiting() > 0) {
            let mut backlog = self.queues.backlog_through(&self.resource, class);
            promoted.iter().for_each(|promoted| backlog.add(&self.resource, promoted));
            let of_key = |charge: &KeyCharge| self.key_demand(charge, class, &promoted);
            behind = self.ledger.paid_after(self.now, &backlog, of_key, bill, tier);
        }
        let offer = self.ledger.earliest(behind.at, bill, tier);
        Offer { limited_by: offer.limited_by.or(behind.limited_by), ..offer }
    }

    /// Returns the bills of promoted requests of less urgent classes that need a bucket of `bill`.
    fn promoted_behind(&self, class: ClassId, bill: &Bill) -> Vec<&Bill> {
        if !self.queues.is_any_behind(class) {
            return Vec::new();
        }
        let key_queues = bill.keyed().filter_map(|charge| self.queue_of_key(charge));
        let at_keys = key_queues.flat_map(|queue| queue.starving(self.resource.classes(), self.now));
        let at_keys = at_keys.map(|(rank, slot)| (rank.class, slot));
        let promoted = self.starving().into_iter().chain(at_keys).filter(|(of, _)| *of > class);
        let bills = promoted.map(|(_, slot)| &*self.permits.get(slot).bill);
        bills.filter(|promoted| promoted.shares_bucket_with(bill)).collect()
    }

    /// Returns how many requests are ahead of a waiting one, and when it will probably start.
    pub(crate) fn outlook(&self, slot: Slot) -> (u64, Offer) {
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        let tier = self.resource.tier(waiting.class);
        if let Some((limit, key_queue)) = self.key_queue_of(waiting) {
            let QueueDemand { count, backlog } = key_queue.ahead_of(waiting);
            let of_key = |charge: &KeyCharge| if charge.limit == limit { backlog } else { Credit::ZERO };
            let shared = Backlog::none(&self.resource);
            return (count as u64, self.paid_after(&shared, of_key, permit, tier));
        }
        let (more_urgent, own) = (self.queues.before(waiting.class), self.queues.class(waiting.class));
        let (count, mut backlog) = own.order.ahead_of(&self.resource, waiting.position.turn);
        backlog.add_all(&queue::backlog(&self.resource, more_urgent));
        // Later requests may go first.
        for (limit, refill) in own.taken_before(&waiting.position) {
            backlog.raise(limit, self.resource[limit].rate().refill_within(refill));
        }
        let ahead = count + more_urgent.iter().map(|queue| queue.order.len()).sum::<usize>();
        (ahead as u64, self.paid_after(&backlog, |_| Credit::ZERO, permit, tier))
    }

    /// Returns when all that is ahead of a waiting request is paid, and its likely option, too.
    fn paid_after(
        &self,
        ahead: &Backlog,
        of_key: impl Fn(&KeyCharge) -> Credit,
        permit: &Permit<R>,
        tier: Tier,
    ) -> Offer {
        let paid = |bill: &Bill| self.ledger.paid_after(self.now, ahead, &of_key, bill, tier);
        self.choose_or(&permit.bill, permit.waiting().came, paid).offer
    }

    /// Returns the first key that holds a request up: its bucket cannot pay within the horizon,
    /// another request in its queue goes first, or it waits for a budget.
    pub(crate) fn blocking_key(&self, slot: Slot, tier: Tier) -> Option<&KeyCharge> {
        let latest = self.now + self.resource.spec().horizon;
        self.permits.get(slot).bill.keyed().find(|charge| {
            let key_queue = self.queue_of_key(charge);
            key_queue.is_some_and(|key_queue| self.is_passed(key_queue, slot))
                || self.earliest_of_key(slot, charge, tier) > latest
                || self.lacks_budget(charge)
        })
    }

    /// Whether another request in a key queue goes before a request that waits outside of it. The
    /// one for which the key keeps an amount was first there.
    fn is_passed(&self, key_queue: &KeyQueue, slot: Slot) -> bool {
        let own = || key_queue.rank(self.resource.classes(), self.now, self.permits.get(slot).waiting());
        let first = key_queue.first(self.resource.classes(), self.now);
        key_queue.kept_for != Some(slot) && first.is_some_and(|(first, _)| first < own())
    }

    pub(crate) fn lacks_budget(&self, charge: &KeyCharge) -> bool {
        self.term.budget.lacks_key(&self.resource, charge)
    }

    /// Returns when a key can pay for a request at the earliest, besides what it keeps for another.
    pub(crate) fn earliest_of_key(&self, slot: Slot, charge: &KeyCharge, tier: Tier) -> Time {
        let (mut bucket, limit) = self.ledger.keys.bucket(self.now, charge.limit, &charge.key);
        let key = self.ledger.keys.find(charge.limit, &charge.key);
        if let Some(holder) = key.and_then(|key| self.kept_before(slot, key)) {
            let (waiting, kept) = (holder.waiting(), holder.bill.get(charge.limit));
            let its_tier = self.resource.tier(waiting.class);
            let at = self.ledger.earliest(self.now, &holder.bill, its_tier).at.max(just_past(self.now));
            let start = StartKey { at, serial: waiting.arrival.serial };
            bucket.to_mut().commit(limit, self.now, start, limit.start_cost(kept, its_tier));
        }
        bucket.earliest(limit, self.now, limit.start_cost(charge.amount, tier))
    }

    /// Returns the request for which a key keeps something, if it goes before the one in `slot` and
    /// is the first of another key's queue. Of two requests that hold each other's keys, the one
    /// that arrived first goes on.
    pub(crate) fn kept_before(&self, slot: Slot, key: Slot) -> Option<&Permit<R>> {
        let (key_queue, now, classes) = (self.queues.keys.get(key)?, self.now, self.resource.classes());
        let holder_slot = key_queue.kept_for.filter(|holder| *holder != slot)?;
        let (holder, permit) = (self.permits.get(holder_slot), self.permits.get(slot));
        let awaited = self.queues.keys.get(holder.waiting().at_key?)?;
        let (its, own) = (holder.waiting(), permit.waiting());
        let is_next = awaited.first(classes, now).is_some_and(|(_, first)| first == holder_slot);
        let is_before = key_queue.rank(classes, now, its) < key_queue.rank(classes, now, own);
        let holds_key = |charge| self.queue_of_key(charge).is_some_and(|queue| queue.kept_for == Some(slot));
        let goes_on = (own.class, own.arrival) < (its.class, its.arrival) && permit.bill.keyed().any(holds_key);
        (is_next && is_before && !goes_on).then_some(holder)
    }

    pub(crate) fn key_queue_of(&self, waiting: &Waiting<R>) -> Option<(LimitId, &KeyQueue)> {
        let bucket = waiting.at_key?;
        Some((self.ledger.keys.get(bucket)?.limit, self.queues.keys.get(bucket)?))
    }

    /// Returns the demand for a key by requests of this class and of more urgent ones, by
    /// `promoted` ones, and by the one for which the key keeps an amount.
    fn key_demand(&self, charge: &KeyCharge, class: ClassId, promoted: &[&Bill]) -> Credit {
        let queue = self.queue_of_key(charge);
        let holder = queue.and_then(|queue| queue.kept_for).map(|slot| self.permits.get(slot));
        let kept = holder.filter(|holder| holder.waiting().at_key.is_some() && holder.waiting().class <= class);
        let kept = kept.map(|holder| &*holder.bill).into_iter();
        let others = kept.chain(promoted.iter().copied()).filter_map(|bill| bill.key_charge(charge.limit));
        let others = others.filter(|other| other.key == charge.key);
        let waiting = queue.map_or(Credit::ZERO, |queue| queue.demand(..=class).backlog);
        others.fold(waiting, |sum, other| sum.saturating_add(self.resource.credit(other.limit, other.amount)))
    }

    fn queue_of_key(&self, charge: &KeyCharge) -> Option<&KeyQueue> {
        self.queues.keys.get(self.ledger.keys.find(charge.limit, &charge.key)?)
    }

    pub(crate) fn promotions(&self) -> impl Iterator<Item = (Time, ClassId, Slot)> + use<'_, R> {
        let queues = self.queues.classes().iter().zip(self.resource.classes_by_id());
        queues.flat_map(|(queue, (id, class))| queue.promotions(class).map(move |(at, slot)| (at, id, slot)))
    }

    /// Returns the requests that are due for promotion, the longest overdue first.
    pub(crate) fn starving(&self) -> Vec<(ClassId, Slot)> {
        let mut due: Vec<(Time, ClassId, Slot)> = self.promotions().filter(|(at, ..)| *at <= self.now).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, class, slot)| (class, slot)).collect()
    }
}

//! Waiting for keys: a request that a key's bucket holds up waits in the queue of that key, and
//! blocks no request with other keys.
//!
//! The first request of a key queue moves to the queue of its class once the key can pay for it. If
//! another key holds the request up there, it moves to that key's queue. The key that it came from
//! then keeps what the request needs, for the time when the other key can pay. Each key keeps
//! something for one request only: for the first in the order of key queues. So the first of all
//! requests never loses what is kept for it, and none waits for ever.

use super::Scheduler;
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::ids::{ClassId, LimitId, Tier};
use crate::limits::{StartKey, just_past};
use crate::permits::Permit;
use crate::policy::{Bill, KeyCharge, Resource};
use crate::queue::{KeyQueue, KeyQueuePosition, Waiting};
use rampmeter_protocol::time::Time;

/// Whether a request has waited for longer than its class allows.
fn starved(resource: &Resource, now: Time) -> impl Fn(KeyQueuePosition) -> bool {
    move |position| {
        let max = resource.classes()[position.class.index()].max_starvation;
        max.is_some_and(|max| position.arrival.at + max <= now)
    }
}

impl<R: Clone> Scheduler<R> {
    /// Moves a request from the queue of its class to that of a key that holds it up. False if no
    /// key does.
    pub(crate) fn wait_for_key(&mut self, now: Time, slot: Slot, tier: Tier) -> bool {
        let Some(charge) = self.blocking_key(now, slot, tier).cloned() else { return false };
        let bucket = self.ledger.keys.find_or_insert(now, &charge);
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        let position = waiting.key_position();
        let cost = self.ledger.keys.limit_of(&charge).rate().credit(charge.amount);
        let queue = self.queues.class_mut(waiting.class);
        queue.leave(&self.resource, waiting, None);
        queue.join_key_wait(slot, waiting);
        self.keys_of(&permit.bill).into_iter().for_each(|bucket| self.ledger.keys.note_change(bucket));
        self.permits.get_mut(slot).waiting_mut().at_key = Some(bucket);
        self.ledger.keys.set_awaited(bucket, true);
        let key_queue = self.queues.keys.open(bucket);
        key_queue.release(slot);
        key_queue.join(position, slot, cost);
        self.ledger.keys.note_change(bucket);
        true
    }

    /// Examines each key that has changed, or whose alarm goes off.
    pub(crate) fn examine_keys(&mut self, now: Time) {
        let latest = now + self.resource.spec().horizon;
        while self.plan.has_steps()
            && let Some(bucket) = self.ledger.keys.pop_changed().or_else(|| self.queues.keys.next_alarm_until(latest))
        {
            self.plan.take_step();
            self.examine_key(now, bucket, latest);
        }
    }

    /// Moves the first request of a key queue to the queue of its class, or sets the alarm for when
    /// it may go. The second request is examined after the first has left, or in the next dispatch.
    fn examine_key(&mut self, now: Time, bucket: Slot, latest: Time) {
        self.queues.keys.clear_alarm(bucket);
        let queue = self.queues.keys.get(bucket);
        let Some((position, first)) = queue.and_then(|queue| queue.first(starved(&self.resource, now))) else {
            let is_awaited = !self.queues.keys.close_deserted(bucket);
            return self.ledger.keys.set_awaited(bucket, is_awaited);
        };
        let permit = self.permits.get(first);
        let limit = self.ledger.keys.get(bucket).expect("a bucket with a key queue stays").limit;
        let charge = permit.bill.key_charge(limit).expect("a request in a key queue is charged for its key").clone();
        let due = self.earliest_of_key(now, position, &charge, self.resource.tier(position.class));
        if due <= latest {
            self.admit(now, bucket, position, first);
            return self.queues.keys.set_alarm(bucket, just_past(latest));
        }
        let is_quota = self.resource[limit].is_quota();
        // A refused request notes its key, which is examined again.
        if !is_quota || !self.turn_away_if_spent(now, first) {
            self.queues.keys.set_alarm(bucket, due);
        }
    }

    /// The first request of a key queue takes its place in the queue of its class.
    fn admit(&mut self, now: Time, bucket: Slot, position: KeyQueuePosition, slot: Slot) {
        let waiting = self.permits.get_mut(slot).waiting_mut();
        waiting.at_key = None;
        self.queues.class_mut(waiting.class).leave_key_wait(waiting);
        self.enter_queue(slot);
        let kept = self.kept_for_before(now, position, bucket).is_some();
        let key_queue = self.queues.keys.open(bucket);
        key_queue.leave(position);
        if !kept {
            key_queue.keep_for(position, slot);
        }
    }

    /// The first key that holds a request up: its bucket cannot pay within the horizon, or another
    /// request in its queue goes first.
    pub(crate) fn blocking_key(&self, now: Time, slot: Slot, tier: Tier) -> Option<&KeyCharge> {
        let permit = self.permits.get(slot);
        let (position, latest) = (permit.waiting().key_position(), now + self.resource.spec().horizon);
        permit.bill.keyed().find(|charge| {
            let key_queue = self.queue_of_key(charge);
            key_queue.is_some_and(|key_queue| key_queue.goes_before(position, starved(&self.resource, now)))
                || self.earliest_of_key(now, position, charge, tier) > latest
        })
    }

    /// The earliest start that a key can pay at this position, beside what it keeps for another
    /// request.
    fn earliest_of_key(&self, now: Time, position: KeyQueuePosition, charge: &KeyCharge, tier: Tier) -> Time {
        let limit = self.ledger.keys.limit_of(charge);
        let mut bucket = self.ledger.keys.bucket(now, charge.limit, &charge.key);
        let slot = self.ledger.keys.find(charge.limit, &charge.key);
        if let Some(holder) = slot.and_then(|slot| self.kept_for_before(now, position, slot)) {
            let (waiting, kept) = (holder.waiting(), holder.bill.get(charge.limit));
            let its_tier = self.resource.tier(waiting.class);
            let at = self.ledger.earliest(now, &holder.bill, its_tier).at.max(just_past(now));
            let start = StartKey { at, serial: waiting.arrival.serial };
            bucket.to_mut().commit(limit, now, start, limit.start_cost(kept, its_tier));
        }
        bucket.earliest(limit, now, limit.start_cost(charge.amount, tier))
    }

    /// The request for which a key keeps something, if it waits for another key and goes before
    /// `position`.
    fn kept_for_before(&self, now: Time, position: KeyQueuePosition, bucket: Slot) -> Option<&Permit<R>> {
        let key_queue = self.queues.keys.get(bucket)?;
        let holder = self.permits.get(key_queue.kept_for_before(position, starved(&self.resource, now))?);
        holder.waiting().at_key.map(|_| holder)
    }

    /// When the next key is to be examined.
    pub(crate) fn next_key_alarm(&self) -> Option<Time> {
        self.queues.keys.next_alarm().map(|(alarm, _)| alarm - self.resource.spec().horizon)
    }

    /// The buckets of the keys that a bill charges.
    pub(crate) fn keys_of(&self, bill: &Bill) -> Vec<Slot> {
        bill.keyed().filter_map(|charge| self.ledger.keys.find(charge.limit, &charge.key)).collect()
    }

    /// The key queue that a request waits in, and the limit of its key.
    pub(crate) fn key_queue_of(&self, waiting: &Waiting<R>) -> Option<(LimitId, &KeyQueue)> {
        let bucket = waiting.at_key.filter(|_| !self.is_former(waiting))?;
        Some((self.ledger.keys.get(bucket)?.limit, self.queues.keys.get(bucket)?))
    }

    /// What requests of this class and of more urgent ones will take of a key. The request for
    /// which it keeps something is one of them.
    pub(crate) fn key_demand(&self, charge: &KeyCharge, class: ClassId) -> Credit {
        let Some(queue) = self.queue_of_key(charge) else { return Credit::ZERO };
        let holder =
            queue.kept_for().filter(|(position, _)| position.class <= class).map(|(_, slot)| self.permits.get(slot));
        let kept = holder.filter(|holder| holder.waiting().at_key.is_some());
        let rate = self.ledger.keys.limit_of(charge).rate();
        queue.through(class).backlog + kept.map_or(Credit::ZERO, |holder| rate.credit(holder.bill.get(charge.limit)))
    }

    fn queue_of_key(&self, charge: &KeyCharge) -> Option<&KeyQueue> {
        self.queues.keys.get(self.ledger.keys.find(charge.limit, &charge.key)?)
    }
}

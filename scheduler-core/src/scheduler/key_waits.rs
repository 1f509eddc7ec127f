//! Waiting for keys: a request that a key's bucket holds up waits in the queue of that key, and
//! blocks no request with other keys.
//!
//! The first request of a key queue moves to the queue of its class once the key can pay for it. If
//! another key holds the request up there, it moves to that key's queue. The key that it came from
//! then keeps what the request needs, for the time when the other key can pay. Each key keeps
//! something for one request only: for the first in the order of key queues. So the first of all
//! requests never loses what is kept for it, and none waits for ever.

use super::Scheduler;
use super::dispatch::just_past;
use super::permits::Permit;
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::ids::{ClassId, LimitId, Tier};
use crate::limits::StartKey;
use crate::policy::{Bill, KeyCharge, Resource};
use crate::queue::{KeyQueue, KeyQueuePosition, Waiting};
use rampmeter_protocol::time::Time;
use std::sync::Arc;

/// Whether a request has waited for longer than its class allows.
fn starved(resource: &Resource, now: Time) -> impl Fn(KeyQueuePosition) -> bool {
    move |(class, arrival)| {
        let max = resource.classes()[class.index()].max_starvation;
        max.is_some_and(|max| arrival.at + max <= now)
    }
}

impl<R: Clone> Scheduler<R> {
    /// Moves a request from the queue of its class to that of a key that holds it up. False if no
    /// key does.
    pub(crate) fn wait_for_key(&mut self, now: Time, slot: Slot, tier: Tier) -> bool {
        let Some(charge) = self.blocking_key(now, slot, tier).cloned() else { return false };
        let key = self.ledger.keys.find_or_insert(now, &charge);
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        let position = waiting.key_position();
        let cost = self.resource.limits()[charge.limit.index()].rate().credit(charge.amount);
        let queue = self.queues.class_mut(waiting.class);
        queue.leave(&self.resource, waiting, None);
        queue.note_key_wait(slot, waiting, true);
        self.keys_of(&permit.bill).into_iter().for_each(|key| self.ledger.keys.note_change(key));
        self.permits.get_mut(slot).waiting_mut().at_key = Some(key);
        self.ledger.keys.set_awaited(key, true);
        let key_queue = self.queues.keys.open(key);
        key_queue.release(slot);
        key_queue.join(position, slot, cost);
        self.ledger.keys.note_change(key);
        true
    }

    /// Takes a request that stops waiting out of its queue.
    pub(crate) fn take_out(&mut self, slot: Slot) -> Waiting<R> {
        let waiting = self.stop_waiting(slot);
        match waiting.at_key {
            _ if self.is_former(&waiting) => self.queues.class_mut(waiting.class).leave_former(&waiting),
            Some(key) => {
                self.queues.keys.open(key).leave(waiting.key_position());
                self.queues.class_mut(waiting.class).note_key_wait(slot, &waiting, false);
                self.ledger.keys.note_change(key);
            }
            None => self.queues.class_mut(waiting.class).leave(&self.resource, &waiting, None),
        }
        self.ledger.note_change();
        waiting
    }

    /// Forgets a request that stops waiting, except for its place in a queue. Keys keep nothing for
    /// it.
    pub(crate) fn stop_waiting(&mut self, slot: Slot) -> Waiting<R> {
        let permit = self.permits.get_mut(slot);
        let (waiting, bill) = (permit.stop_waiting(), Arc::clone(&permit.bill));
        self.queues.remove(slot, &waiting, &bill);
        for key in self.keys_of(&bill) {
            self.queues.keys.get_mut(key).into_iter().for_each(|key_queue| key_queue.release(slot));
            self.ledger.keys.note_change(key);
        }
        waiting
    }

    /// Examines each key that has changed, or whose alarm goes off.
    pub(crate) fn examine_keys(&mut self, now: Time) {
        let latest = now + self.resource.spec().horizon;
        while self.steps_left > 0
            && let Some(key) =
                self.ledger.keys.changed_mut().pop_first().or_else(|| self.queues.keys.next_alarm_until(latest))
        {
            self.take_step();
            self.examine_key(now, key, latest);
        }
    }

    /// Moves the first request of a key queue to the queue of its class, or sets the alarm for when
    /// it may go. The second request is examined after the first has left, or in the next dispatch.
    fn examine_key(&mut self, now: Time, key: Slot, latest: Time) {
        self.queues.keys.clear_alarm(key);
        let queue = self.queues.keys.get(key);
        let Some((position, first)) = queue.and_then(|queue| queue.first(starved(&self.resource, now))) else {
            let is_awaited = !self.queues.keys.close_deserted(key);
            return self.ledger.keys.set_awaited(key, is_awaited);
        };
        let permit = self.permits.get(first);
        let limit = self.ledger.keys.get(key).expect("a bucket with a key queue stays").limit;
        let charge = permit.bill.key_charge(limit).expect("a request in a key queue is charged for its key").clone();
        let due = self.earliest_of_key(now, position, &charge, self.tier(position.0));
        if due <= latest {
            self.admit(now, key, position, first);
            return self.queues.keys.set_alarm(key, just_past(latest));
        }
        let is_quota = self.resource.limits()[limit.index()].is_quota();
        // A refused request notes its key, which is examined again.
        if !is_quota || !self.turn_away_if_spent(now, first) {
            self.queues.keys.set_alarm(key, due);
        }
    }

    /// The first request of a key queue takes its place in the queue of its class.
    fn admit(&mut self, now: Time, key: Slot, position: KeyQueuePosition, slot: Slot) {
        let waiting = self.permits.get_mut(slot).waiting_mut();
        waiting.at_key = None;
        self.queues.class_mut(waiting.class).note_key_wait(slot, waiting, false);
        self.enter_queue(slot);
        let kept = self.claim_before(now, position, key).is_some();
        let key_queue = self.queues.keys.open(key);
        key_queue.leave(position);
        if !kept {
            key_queue.claim = Some((position, slot));
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
        let limit = &self.resource.limits()[charge.limit.index()];
        let mut bucket = self.ledger.keys.bucket(now, charge.limit, &charge.key);
        let key = self.ledger.keys.find(charge.limit, &charge.key);
        if let Some(holder) = key.and_then(|key| self.claim_before(now, position, key)) {
            let (waiting, kept) = (holder.waiting(), holder.bill.get(charge.limit));
            let its_tier = self.tier(waiting.class);
            let at = self.ledger.earliest(now, &holder.bill, its_tier).at.max(just_past(now));
            let start = StartKey { at, serial: waiting.arrival.serial };
            bucket.to_mut().commit(limit, now, start, limit.start_cost(kept, its_tier));
        }
        bucket.earliest(limit, now, limit.start_cost(charge.amount, tier))
    }

    /// The request for which a key keeps something, if it waits for another key and goes before
    /// `position`.
    fn claim_before(&self, now: Time, position: KeyQueuePosition, key: Slot) -> Option<&Permit<R>> {
        let key_queue = self.queues.keys.get(key)?;
        let holder = self.permits.get(key_queue.claim_before(position, starved(&self.resource, now))?);
        holder.waiting().at_key.map(|_| holder)
    }

    /// When the next key is to be examined.
    pub(crate) fn next_key_alarm(&self) -> Option<Time> {
        self.queues.keys.next_alarm().map(|(alarm, _)| alarm - self.resource.spec().horizon)
    }

    /// The keys that a bill charges.
    fn keys_of(&self, bill: &Bill) -> Vec<Slot> {
        bill.keyed().filter_map(|charge| self.ledger.keys.find(charge.limit, &charge.key)).collect()
    }

    /// The key queue that a request waits in, and the limit of its key.
    pub(crate) fn key_queue_of(&self, waiting: &Waiting<R>) -> Option<(LimitId, &KeyQueue)> {
        let key = waiting.at_key.filter(|_| !self.is_former(waiting))?;
        Some((self.ledger.keys.get(key)?.limit, self.queues.keys.get(key)?))
    }

    /// What requests of this class and of more urgent ones will take of a key. The request for
    /// which it keeps something is one of them.
    pub(crate) fn key_demand(&self, charge: &KeyCharge, class: ClassId) -> Credit {
        let Some(queue) = self.queue_of_key(charge) else { return Credit::ZERO };
        let holder = queue.claim.filter(|((of, _), _)| *of <= class).map(|(_, slot)| self.permits.get(slot));
        let kept = holder.filter(|holder| holder.waiting().at_key.is_some());
        let rate = self.resource.limits()[charge.limit.index()].rate();
        queue.through(class).backlog + kept.map_or(Credit::ZERO, |holder| rate.credit(holder.bill.get(charge.limit)))
    }

    fn queue_of_key(&self, charge: &KeyCharge) -> Option<&KeyQueue> {
        self.queues.keys.get(self.ledger.keys.find(charge.limit, &charge.key)?)
    }
}

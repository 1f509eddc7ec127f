//! Waiting for keys: a request that only the bucket of a key holds up waits in the queue of that key, its gate, and blocks no other.
//!
//! There is one rule for which goes next: of each gate the first, once its key can pay for it beside what it keeps. That request
//! takes its place in the line of its class. If another key holds it up there, it goes to that key's gate, and the key that it came
//! from keeps what it needs for the time when the other can pay. Each key keeps something for one request only, the first of them in
//! the order of gates: the first of all requests loses nothing that is kept for it, so that none waits for ever.

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

impl<R> Waiting<R> {
    pub(crate) fn key_position(&self) -> KeyQueuePosition {
        (self.class, self.arrival)
    }
}

/// Which requests have waited longer than those of their class are to wait.
fn starved(resource: &Resource, now: Time) -> impl Fn(KeyQueuePosition) -> bool {
    move |(class, arrival)| {
        let most = resource.classes()[class.index()].max_starvation;
        most.is_some_and(|most| arrival.at + most <= now)
    }
}

impl<R: Clone> Scheduler<R> {
    /// Sends a request from the line of its class to the gate of a key that holds it up. False if none does.
    pub(crate) fn wait_for_key(&mut self, now: Time, slot: Slot, tier: Tier) -> bool {
        let Some(charge) = self.blocking_key(now, slot, tier).cloned() else { return false };
        let key = self.ledger.keys.open(now, &charge);
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        let position = waiting.key_position();
        let cost = self.resource.limits()[charge.limit.index()].rate().credit(charge.amount);
        let queue = self.queues.class_mut(waiting.class);
        queue.leave(&self.resource, waiting, None);
        queue.note_key_wait(slot, waiting, true);
        self.keys_of(&Arc::clone(&permit.bill)).into_iter().for_each(|key| self.ledger.keys.note(key));
        self.permits.get_mut(slot).waiting_mut().at_key = Some(key);
        self.ledger.keys.keep(key, true);
        let key_queue = self.queues.keys.open(key);
        key_queue.release(slot);
        key_queue.join(position, slot, cost);
        self.ledger.keys.note(key);
        true
    }

    /// Takes a request that stops waiting out of its line, or from the gate where it stands.
    pub(crate) fn take_out(&mut self, slot: Slot) -> Waiting<R> {
        let waiting = self.stop_waiting(slot);
        match waiting.at_key {
            Some(key) => self.leave_key_queue(key, slot, &waiting),
            None => self.queues.class_mut(waiting.class).leave(&self.resource, &waiting, None),
        }
        self.ledger.note_change();
        waiting
    }

    /// Forgets a request that stops waiting, but for its place in line: no key keeps anything for it.
    pub(crate) fn stop_waiting(&mut self, slot: Slot) -> Waiting<R> {
        let permit = self.permits.get_mut(slot);
        let (waiting, bill) = (permit.stop_waiting(), Arc::clone(&permit.bill));
        self.queues.strike_off(slot, &waiting, &bill);
        for key in self.keys_of(&bill) {
            self.queues.keys.get_mut(key).into_iter().for_each(|key_queue| key_queue.release(slot));
            self.ledger.keys.note(key);
        }
        waiting
    }

    /// Looks at each key where something has changed, or whose alarm goes off.
    pub(crate) fn look_at_keys(&mut self, now: Time) {
        let latest = now + self.resource.spec().horizon;
        while self.steps_left > 0
            && let Some(key) = self.ledger.keys.take_noted().or_else(|| self.next_alarm(latest))
        {
            self.take_step();
            self.look_at_key(now, key, latest);
        }
    }

    /// Sends the first at a gate to the line of its class, or finds out when that may go. The next one is looked at when the first has
    /// been, or with the next plan.
    fn look_at_key(&mut self, now: Time, key: Slot, latest: Time) {
        self.queues.keys.clear_alarm(key);
        let Some((position, first)) = self.first_at(now, key) else {
            let is_awaited = !self.queues.keys.close_deserted(key);
            return self.ledger.keys.keep(key, is_awaited);
        };
        let permit = self.permits.get(first);
        let limit = self.ledger.keys.get(key).expect("a bucket with a key_queue stays").limit;
        let charge = permit.bill.key_charge(limit).expect("a request at a key_queue is charged for its key").clone();
        let due = self.earliest_of_key(now, position, &charge, self.tier(position.0));
        if due <= latest {
            self.admit(now, key, position, first);
            return self.queues.keys.set_alarm(key, just_past(latest));
        }
        let is_quota = self.resource.limits()[limit.index()].is_quota();
        // The next is looked at once this one has left.
        if !is_quota || !self.turn_away_if_spent(now, first) {
            self.queues.keys.set_alarm(key, due);
        }
    }

    /// The first at a gate takes its place in the line of its class.
    fn admit(&mut self, now: Time, key: Slot, position: KeyQueuePosition, slot: Slot) {
        let permit = self.permits.get_mut(slot);
        let bill = Arc::clone(&permit.bill);
        let waiting = permit.waiting_mut();
        waiting.at_key = None;
        let queue = self.queues.class_mut(waiting.class);
        queue.note_key_wait(slot, waiting, false);
        queue.enter(&self.resource, slot, &bill, waiting);
        let kept = self.kept_before(now, position, key).is_some();
        let key_queue = self.queues.keys.open(key);
        key_queue.leave(position);
        if !kept {
            key_queue.claim = Some((position, slot));
        }
    }

    /// The first key that holds a request up: its bucket can't pay within the horizon, or others of the same key go before.
    pub(crate) fn blocking_key(&self, now: Time, slot: Slot, tier: Tier) -> Option<&KeyCharge> {
        let permit = self.permits.get(slot);
        let (position, latest) = (permit.waiting().key_position(), now + self.resource.spec().horizon);
        permit.bill.keyed().find(|charge| {
            let key_queue = self.queue_of_key(charge);
            key_queue.is_some_and(|key_queue| key_queue.goes_before(position, starved(&self.resource, now)))
                || self.earliest_of_key(now, position, charge, tier) > latest
        })
    }

    /// The earliest start of a request that stands so which the bucket of a key can pay, beside what it keeps for another.
    fn earliest_of_key(&self, now: Time, position: KeyQueuePosition, charge: &KeyCharge, tier: Tier) -> Time {
        let limit = &self.resource.limits()[charge.limit.index()];
        let mut bucket = self.ledger.keys.bucket(now, charge);
        let key = self.ledger.keys.find(charge.limit, &charge.key);
        if let Some(holder) = key.and_then(|key| self.kept_before(now, position, key)) {
            let (waiting, kept) = (holder.waiting(), holder.bill.get(charge.limit));
            let its_tier = self.tier(waiting.class);
            let at = self.ledger.earliest(now, &holder.bill, its_tier).at.max(just_past(now));
            let start = StartKey { at, serial: waiting.arrival.serial };
            bucket.to_mut().commit(limit, now, start, limit.draw(kept, its_tier));
        }
        bucket.earliest(limit, now, limit.draw(charge.amount, tier))
    }

    /// The request for which a key keeps what it needs, if that waits for another key and goes before `position`.
    fn kept_before(&self, now: Time, position: KeyQueuePosition, key: Slot) -> Option<&Permit<R>> {
        let key_queue = self.queues.keys.get(key)?;
        let holder = self.permits.get(key_queue.claim_before(position, starved(&self.resource, now))?);
        holder.waiting().at_key.map(|_| holder)
    }

    /// When the next gate opens.
    pub(crate) fn next_key_alarm(&self) -> Option<Time> {
        self.queues.keys.next_alarm().map(|(alarm, _)| alarm - self.resource.spec().horizon)
    }

    /// The buckets of keys that a bill charges.
    fn keys_of(&self, bill: &Bill) -> Vec<Slot> {
        bill.keyed().filter_map(|charge| self.ledger.keys.find(charge.limit, &charge.key)).collect()
    }

    /// The gate where one that waits stands, if it stands at one, and its limit.
    pub(crate) fn key_queue_of(&self, waiting: &Waiting<R>) -> Option<(LimitId, &KeyQueue)> {
        let key = waiting.at_key?;
        Some((self.ledger.keys.get(key)?.limit, self.queues.keys.get(key)?))
    }

    /// What those of this class and of more urgent ones will take of a key, who stand at its gate or for whom it keeps something.
    pub(crate) fn crowd(&self, charge: &KeyCharge, class: ClassId) -> Credit {
        let key_queue = self.queue_of_key(charge);
        key_queue.map_or(Credit::ZERO, |key_queue| {
            let holder = key_queue.claim.filter(|((of, _), _)| *of <= class).map(|(_, slot)| self.permits.get(slot));
            let kept =
                holder.filter(|holder| holder.waiting().at_key.is_some()).map(|holder| holder.bill.get(charge.limit));
            let rate = self.resource.limits()[charge.limit.index()].rate();
            key_queue.through(class).backlog + kept.map_or(Credit::ZERO, |amount| rate.credit(amount))
        })
    }

    /// The first at a gate, if a request stands there.
    fn first_at(&self, now: Time, key: Slot) -> Option<(KeyQueuePosition, Slot)> {
        self.queues.keys.get(key)?.first(starved(&self.resource, now))
    }

    fn leave_key_queue(&mut self, key: Slot, slot: Slot, waiting: &Waiting<R>) {
        self.queues.keys.open(key).leave(waiting.key_position());
        self.queues.class_mut(waiting.class).note_key_wait(slot, waiting, false);
        self.ledger.keys.note(key);
    }

    fn next_alarm(&self, latest: Time) -> Option<Slot> {
        self.queues.keys.next_alarm().filter(|(alarm, _)| *alarm <= latest).map(|(_, key)| key)
    }

    /// The queue of the key that is charged.
    fn queue_of_key(&self, charge: &KeyCharge) -> Option<&KeyQueue> {
        self.queues.keys.get(self.ledger.keys.find(charge.limit, &charge.key)?)
    }
}

//! Waiting for keys: a request that only the bucket of a key holds up waits in the queue of that key, its gate, and blocks no other.
//!
//! There is one rule for which goes next: of each gate the first, once its key can pay for it beside what it keeps. That request
//! takes its place in the line of its class. If another key holds it up there, it goes to that key's gate, and the key that it came
//! from keeps what it needs for the time when the other can pay. Each key keeps something for one request only, the first of them in
//! the order of gates: the first of all requests loses nothing that is kept for it, so that none waits for ever.

use super::gate::{Gate, Stand};
use super::line::Waiting;
use super::plan::just_past;
use crate::collections::Slot;
use crate::ids::{ClassId, LimitId, Tier};
use crate::ledger::{Bill, KeyCharge};
use crate::limits::{Credit, Key};
use crate::permits::Permit;
use crate::policy::Resource;
use crate::scheduler::Scheduler;
use rampmeter_protocol::time::Time;
use std::sync::Arc;

impl<R> Waiting<R> {
    pub(crate) fn stand(&self) -> Stand {
        (self.class, self.place)
    }
}

/// Which requests have waited longer than those of their class are to wait.
fn starved(resource: &Resource, now: Time) -> impl Fn(Stand) -> bool {
    move |(class, place)| {
        let most = resource.classes()[class.index()].max_starvation;
        most.is_some_and(|most| place.arrived + most <= now)
    }
}

impl<R: Clone> Scheduler<R> {
    /// Sends a request from the line of its class to the gate of a key that holds it up. False if none does.
    pub(crate) fn stand_aside(&mut self, now: Time, slot: Slot, tier: Tier) -> bool {
        let Some(charge) = self.blocking_key(now, slot, tier).cloned() else { return false };
        let key = self.ledger.keys.open(now, &charge);
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        let stand = waiting.stand();
        let cost = self.resource.limits()[charge.limit.index()].rate().credit(charge.amount);
        let line = &mut self.lines[waiting.class.index()];
        line.leave(&self.resource, waiting, None);
        line.note_aside(slot, waiting, true);
        self.keys_of(&Arc::clone(&permit.bill)).into_iter().for_each(|key| self.ledger.keys.note(key));
        self.permits.get_mut(slot).waiting_mut().aside = Some(key);
        let gate = self.gate(key);
        gate.release(slot);
        gate.join(stand, slot, cost);
        self.ledger.keys.note(key);
        true
    }

    /// Takes a request that stops waiting out of its line, or from the gate where it stands.
    pub(crate) fn take_out(&mut self, slot: Slot) -> Waiting<R> {
        let waiting = self.stop_waiting(slot);
        match waiting.aside {
            Some(key) => self.leave_gate(key, slot, &waiting),
            None => self.lines[waiting.class.index()].leave(&self.resource, &waiting, None),
        }
        self.ledger.note_change();
        waiting
    }

    /// Forgets a request that stops waiting, but for its place in line: no key keeps anything for it.
    pub(crate) fn stop_waiting(&mut self, slot: Slot) -> Waiting<R> {
        let permit = self.permits.get_mut(slot);
        let (waiting, bill) = (permit.stop_waiting(), Arc::clone(&permit.bill));
        self.headcount.leave(&waiting.client, &bill);
        self.news.enlist(waiting.place, slot, false);
        if let Some(deadline) = waiting.deadline {
            self.deadlines.remove(&(deadline, waiting.place, slot));
        }
        for key in self.keys_of(&bill) {
            self.ledger.keys.gate_mut(key).into_iter().for_each(|gate| gate.release(slot));
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
        self.forget_alarm(key);
        let Some((stand, first)) = self.first_at(now, key) else {
            return self.ledger.keys.close_deserted(key);
        };
        let permit = self.permits.get(first);
        let limit = self.ledger.keys.get(key).expect("a bucket with a gate stays").limit;
        let charge = permit.bill.key_of(limit).expect("a request at a gate is charged for its key").clone();
        let due = self.earliest_of_key(now, stand, &charge, self.tier(stand.0));
        if due <= latest {
            self.admit(now, key, stand, first);
            return self.set_alarm(key, just_past(latest));
        }
        let is_quota = self.resource.limits()[limit.index()].is_quota();
        // The next is looked at once this one has left.
        if !is_quota || !self.turn_away_if_spent(now, first) {
            self.set_alarm(key, due);
        }
    }

    /// The first at a gate takes its place in the line of its class.
    fn admit(&mut self, now: Time, key: Slot, stand: Stand, slot: Slot) {
        let permit = self.permits.get_mut(slot);
        let bill = Arc::clone(&permit.bill);
        let waiting = permit.waiting_mut();
        waiting.aside = None;
        let line = &mut self.lines[waiting.class.index()];
        line.note_aside(slot, waiting, false);
        line.enter(&self.resource, slot, &bill, waiting);
        let kept = self.kept_before(now, stand, key).is_some();
        let gate = self.gate(key);
        gate.leave(stand);
        if !kept {
            gate.claim = Some((stand, slot));
        }
    }

    /// The first key that holds a request up: its bucket can't pay within the horizon, or others of the same key go before.
    pub(crate) fn blocking_key(&self, now: Time, slot: Slot, tier: Tier) -> Option<&KeyCharge> {
        let permit = self.permits.get(slot);
        let (stand, latest) = (permit.waiting().stand(), now + self.resource.spec().horizon);
        permit.bill.keyed().find(|charge| {
            let gate = self.ledger.keys.known(charge).and_then(|known| known.gate.as_ref());
            gate.is_some_and(|gate| gate.goes_before(stand, starved(&self.resource, now)))
                || self.earliest_of_key(now, stand, charge, tier) > latest
        })
    }

    /// The earliest start of a request that stands so which the bucket of a key can pay, beside what it keeps for another.
    fn earliest_of_key(&self, now: Time, stand: Stand, charge: &KeyCharge, tier: Tier) -> Time {
        let limit = &self.resource.limits()[charge.limit.index()];
        let mut bucket = self.ledger.keys.bucket(now, charge);
        let key = self.ledger.keys.find(charge.limit, &charge.key);
        if let Some(holder) = key.and_then(|key| self.kept_before(now, stand, key)) {
            let (waiting, kept) = (holder.waiting(), holder.bill.get(charge.limit));
            let its_tier = self.tier(waiting.class);
            let at = self.ledger.earliest(now, &holder.bill, its_tier).at.max(just_past(now));
            let start = Key { at, serial: waiting.place.serial };
            bucket.to_mut().commit(limit, now, start, limit.draw(kept, its_tier));
        }
        bucket.earliest(limit, now, limit.draw(charge.amount, tier))
    }

    /// The request for which a key keeps what it needs, if that waits for another key and goes before `stand`.
    fn kept_before(&self, now: Time, stand: Stand, key: Slot) -> Option<&Permit<R>> {
        let gate = self.ledger.keys.get(key)?.gate.as_ref()?;
        let holder = self.permits.get(gate.claim_before(stand, starved(&self.resource, now))?);
        holder.waiting().aside.map(|_| holder)
    }

    /// When the next gate opens.
    pub(crate) fn next_gate(&self) -> Option<Time> {
        self.alarms.first().map(|(alarm, _)| *alarm - self.resource.spec().horizon)
    }

    /// The buckets of keys that a bill charges.
    fn keys_of(&self, bill: &Bill) -> Vec<Slot> {
        bill.keyed().filter_map(|charge| self.ledger.keys.find(charge.limit, &charge.key)).collect()
    }

    /// The gate where one that waits stands, if it stands at one, and its limit.
    pub(crate) fn gate_of(&self, waiting: &Waiting<R>) -> Option<(LimitId, &Gate)> {
        let known = self.ledger.keys.get(waiting.aside?)?;
        Some((known.limit, known.gate.as_deref()?))
    }

    /// What those of this class and of more urgent ones will take of a key, who stand at its gate or for whom it keeps something.
    pub(crate) fn crowd(&self, charge: &KeyCharge, class: ClassId) -> Credit {
        let gate = self.ledger.keys.known(charge).and_then(|known| known.gate.as_ref());
        gate.map_or(Credit::ZERO, |gate| {
            let holder = gate.claim.filter(|((of, _), _)| *of <= class).map(|(_, slot)| self.permits.get(slot));
            let kept =
                holder.filter(|holder| holder.waiting().aside.is_some()).map(|holder| holder.bill.get(charge.limit));
            let rate = self.resource.limits()[charge.limit.index()].rate();
            gate.through(class).backlog + kept.map_or(Credit::ZERO, |amount| rate.credit(amount))
        })
    }

    /// The first at a gate, if a request stands there.
    fn first_at(&self, now: Time, key: Slot) -> Option<(Stand, Slot)> {
        self.ledger.keys.get(key)?.gate.as_ref()?.first(starved(&self.resource, now))
    }

    fn leave_gate(&mut self, key: Slot, slot: Slot, waiting: &Waiting<R>) {
        self.gate(key).leave(waiting.stand());
        self.lines[waiting.class.index()].note_aside(slot, waiting, false);
        self.ledger.keys.note(key);
    }

    fn next_alarm(&self, latest: Time) -> Option<Slot> {
        self.alarms.first().filter(|(alarm, _)| *alarm <= latest).map(|(_, key)| *key)
    }

    fn set_alarm(&mut self, key: Slot, alarm: Time) {
        self.gate(key).alarm = Some(alarm);
        self.alarms.insert((alarm, key));
    }

    fn forget_alarm(&mut self, key: Slot) {
        if let Some(before) = self.ledger.keys.gate_mut(key).and_then(|gate| gate.alarm.take()) {
            self.alarms.remove(&(before, key));
        }
    }

    fn gate(&mut self, key: Slot) -> &mut Gate {
        self.ledger.keys.get_mut(key).expect("a bucket with a gate stays").gate.get_or_insert_default()
    }
}

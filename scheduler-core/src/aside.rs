//! Standing aside: who waits for nothing but the bucket of its own key blocks nobody.
//!
//! One that is first in the line of its class, and whose key can't pay yet, goes to the gate of that key. When the
//! key can pay for the first there, that one takes its place in the line of its class again.

use crate::bill::{Bill, KeyCharge};
use crate::credit::Credit;
use crate::gate::{Crowd, Gate, Stand};
use crate::keys::Keys;
use crate::limit::Tier;
use crate::line::{Place, Waiting};
use crate::resource::ClassId;
use crate::scheduler::Scheduler;
use crate::slab::Slot;
use rampmeter_protocol::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a waiting request has to do with a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    /// It stands at the gate of the bucket in this place.
    Standing(Slot),
    /// It stood there, and is in the line of its class again.
    Admitted(Slot),
    /// It waits for several keys at once.
    Between,
}

/// The gates at buckets that `bill` charges.
fn gated<'a>(keys: &'a Keys, bill: &'a Bill) -> impl Iterator<Item = Slot> + 'a {
    let buckets = bill.keyed().filter_map(|charge| keys.find(charge.limit, &charge.key));
    buckets.filter(|slot| keys.get(*slot).is_some_and(|known| known.gate.is_some()))
}

impl<R> Waiting<R> {
    pub(crate) fn stand(&self) -> Stand {
        (self.class, self.place)
    }
}

impl<R: Clone> Scheduler<R> {
    /// Sends the first in line to the gate of a key that holds it up. False if none does.
    pub(crate) fn stand_aside(&mut self, now: Time, slot: Slot, tier: Tier) -> bool {
        let Some(gate) = self.obstacle(now, slot, tier) else { return false };
        self.yield_turn(slot);
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        self.lines[waiting.class.index()].leave(&self.resource, slot, waiting);
        let (stand, before, turns) = (waiting.stand(), waiting.aside, waiting.turns.and_to(gate));
        self.dismiss(before);
        self.permits.get_mut(slot).waiting_mut().turns = turns;
        if self.waits_between(turns) {
            self.join_between(slot);
            return true;
        }
        let cost = self.cost_at(gate, &self.permits.get(slot).bill);
        self.gate(gate).join(stand, slot, cost);
        self.permits.get_mut(slot).waiting_mut().aside = Some(Aside::Standing(gate));
        self.parked.insert(stand.1, slot);
        self.stirred.push(gate);
        true
    }

    /// Takes one that stops waiting out of its line, or from the gate where it stands.
    pub(crate) fn take_out(&mut self, slot: Slot, waiting: &Waiting<R>, bill: &Bill) {
        self.stirred.extend(gated(&self.ledger.keys, bill));
        self.headcount.leave(&waiting.client, bill);
        match waiting.aside {
            Some(Aside::Standing(gate)) => self.leave_gate(gate, waiting),
            Some(Aside::Between) => self.leave_between(waiting.stand()),
            Some(Aside::Admitted(_)) | None => {
                self.lines[waiting.class.index()].leave(&self.resource, slot, waiting);
                self.dismiss(waiting.aside);
            }
        }
    }

    /// Notes that one has left the line of its class: the next of its key may follow.
    pub(crate) fn dismiss(&mut self, aside: Option<Aside>) {
        if let Some(Aside::Admitted(gate)) = aside {
            self.gate(gate).dismiss();
            self.stirred.push(gate);
        }
    }

    /// Sends those back to the lines of their classes whose keys can pay within the horizon. Whether there were any.
    pub(crate) fn open_gates(&mut self, now: Time) -> bool {
        let mut opened = false;
        while let Some((alarm, gate)) = self.alarms.first().copied() {
            if alarm > now + self.resource.horizon() {
                break;
            }
            self.alarms.remove(&(alarm, gate));
            self.admit_first(now, gate);
            opened = true;
        }
        opened
    }

    /// When the next gate opens.
    pub(crate) fn next_gate(&self) -> Option<Time> {
        self.alarms.first().map(|(alarm, _)| *alarm - self.resource.horizon())
    }

    /// Notes that the buckets of keys which a permit is charged for are to change.
    pub(crate) fn stir(&mut self, slot: Slot) {
        self.stirred.extend(gated(&self.ledger.keys, &self.permits.get(slot).bill));
    }

    /// The gate where one that waits stands, if it stands at one, and those before it there.
    pub(crate) fn ahead_at_gate(&self, waiting: &Waiting<R>) -> Option<(Slot, Crowd)> {
        self.gate_of(waiting).map(|(place, gate)| (place, gate.ahead_of(waiting.stand())))
    }

    /// The gate where one that waits stands, if it stands at one.
    pub(crate) fn gate_of(&self, waiting: &Waiting<R>) -> Option<(Slot, &Gate)> {
        let Some(Aside::Standing(place)) = waiting.aside else { return None };
        Some((place, self.ledger.keys.get(place)?.gate.as_deref()?))
    }

    /// What those of this class and of more urgent ones will take who stand at the gate of a key.
    pub(crate) fn crowd(&self, charge: &KeyCharge, class: ClassId) -> Credit {
        let known = self.ledger.keys.known(charge);
        known.and_then(|known| known.gate.as_ref()).map_or(Credit::ZERO, |gate| gate.through(class).backlog)
    }

    /// How many of each class stand at gates, and the first of them to have come.
    pub(crate) fn crowds_at_gates(&self) -> Vec<(usize, Option<Place>)> {
        let mut crowds = vec![(0, None); self.lines.len()];
        for (place, slot) in &self.parked {
            let (count, first) = &mut crowds[self.permits.get(*slot).waiting().class.index()];
            *count += 1;
            first.get_or_insert(*place);
        }
        crowds
    }

    /// The gates where somebody stands.
    pub(crate) fn gates(&self) -> BTreeSet<Slot> {
        let standing = |slot: &Slot| match self.permits.get(*slot).waiting().aside {
            Some(Aside::Standing(gate)) => Some(gate),
            Some(Aside::Admitted(_) | Aside::Between) | None => None,
        };
        self.parked.values().filter_map(standing).collect()
    }

    /// The gate of the first key that holds one up.
    fn obstacle(&mut self, now: Time, slot: Slot, tier: Tier) -> Option<Slot> {
        let blocking = self.blocking_key(now, slot, tier)?.clone();
        Some(self.ledger.keys.open(now, &blocking))
    }

    /// The first key that holds one up: its bucket can't pay within the horizon, or others of the same key go before.
    pub(crate) fn blocking_key(&self, now: Time, slot: Slot, tier: Tier) -> Option<&KeyCharge> {
        let permit = self.permits.get(slot);
        let (stand, latest) = (permit.waiting().stand(), now + self.resource.horizon());
        let starved = |stand| self.has_starved(now, stand);
        permit.bill.keyed().find(|charge| {
            let gate = self.ledger.keys.known(charge).and_then(|known| known.gate.as_ref());
            gate.is_some_and(|gate| gate.goes_before(stand, starved))
                || self.ledger.earliest_of_key(now, charge, tier) > latest
        })
    }

    /// The first at a gate goes to the line of its class.
    fn admit_first(&mut self, now: Time, gate: Slot) {
        let Some((stand, slot)) = self.first_at(now, gate) else { return };
        self.gate(gate).alarm = None;
        self.gate(gate).leave(stand);
        self.gate(gate).admit(stand);
        self.parked.remove(&stand.1);
        self.join_again(slot, Some(Aside::Admitted(gate)));
        self.admitted.push(slot);
    }

    /// One that stood aside goes to the line of its class.
    pub(crate) fn join_again(&mut self, slot: Slot, aside: Option<Aside>) {
        let permit = self.permits.get_mut(slot);
        let bill = Arc::clone(&permit.bill);
        let waiting = permit.waiting_mut();
        let line = &mut self.lines[waiting.class.index()];
        waiting.aside = aside;
        waiting.standing = line.stand(&self.resource, &waiting.client, waiting.place, &bill);
        line.join(&self.resource, slot, &bill, waiting);
    }

    /// Who came from a gate and still waits does so for something shared: others of its key need not.
    pub(crate) fn let_others_follow(&mut self) {
        for slot in std::mem::take(&mut self.admitted) {
            if let Some(waiting) = self.permits.find_waiting(slot)
                && matches!(waiting.aside, Some(Aside::Admitted(_)))
            {
                let aside = waiting.aside.take();
                self.dismiss(aside);
            }
        }
    }

    /// Finds out when the first may go at gates where something has changed.
    pub(crate) fn set_alarms(&mut self, now: Time) {
        let mut stirred = std::mem::take(&mut self.stirred);
        stirred.sort_unstable();
        stirred.dedup();
        for gate in stirred {
            self.set_alarm(now, gate);
            self.rationed.extend(self.is_at_quota(gate).then_some(gate));
        }
    }

    /// Refuses those who stand at gates of quotas that are spent: nobody waits for one. Nothing may be held for others meanwhile.
    pub(crate) fn refuse_at_gates(&mut self, now: Time) {
        for gate in std::mem::take(&mut self.rationed) {
            while let Some((_, first)) = self.first_at(now, gate)
                && self.turn_away_if_spent(now, first)
            {}
        }
        self.set_alarms(now);
    }

    fn is_at_quota(&self, gate: Slot) -> bool {
        let known = self.ledger.keys.get(gate);
        known.is_some_and(|known| self.resource.limits()[known.limit.index()].is_quota())
    }

    fn set_alarm(&mut self, now: Time, place: Slot) {
        let Some(gate) = self.ledger.keys.get_mut(place).and_then(|known| known.gate.as_mut()) else { return };
        if let Some(before) = gate.alarm.take() {
            self.alarms.remove(&(before, place));
        }
        if gate.is_deserted() {
            self.ledger.keys.get_mut(place).expect("a slot in use").gate = None;
            return;
        }
        let Some((_, first)) = self.first_at(now, place) else { return };
        let permit = self.permits.get(first);
        let limit = self.ledger.keys.get(place).expect("a slot in use").limit;
        let charge = permit.bill.key_of(limit).expect("who stands at a gate is charged for its key");
        let alarm = self.ledger.earliest_of_key(now, charge, self.tier(permit.waiting().class));
        self.gate(place).alarm = Some(alarm);
        self.alarms.insert((alarm, place));
    }

    /// Who may go next at a gate.
    fn first_at(&self, now: Time, place: Slot) -> Option<(Stand, Slot)> {
        self.ledger.keys.get(place)?.gate.as_ref()?.first(|stand| self.has_starved(now, stand))
    }

    /// Whether one has waited longer than those of its class are to wait.
    fn has_starved(&self, now: Time, (class, place): Stand) -> bool {
        let most = self.resource.classes()[class.index()].max_starvation;
        most.is_some_and(|most| place.arrived + most <= now)
    }

    fn leave_gate(&mut self, gate: Slot, waiting: &Waiting<R>) {
        self.gate(gate).leave(waiting.stand());
        self.parked.remove(&waiting.place);
        self.stirred.push(gate);
    }

    fn cost_at(&self, gate: Slot, bill: &Bill) -> Credit {
        let limit = self.ledger.keys.get(gate).expect("a bucket with a gate stays").limit;
        self.resource.limits()[limit.index()].rate().credit(bill.get(limit))
    }

    fn gate(&mut self, place: Slot) -> &mut Gate {
        self.ledger.keys.get_mut(place).expect("a bucket with a gate stays").gate.get_or_insert_default()
    }
}

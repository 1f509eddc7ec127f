//! Those who need several busy keys at once.
//!
//! Going from the gate of one key to that of another, such a request could be passed for ever: whenever one key can pay for it, others
//! have just taken what another key had. So after a while it waits for all of them together. What it waits for is held for it
//! whenever others of its class are served, and those behind it have the rest.

use crate::aside::Aside;
use crate::bill::KeyCharge;
use crate::credit::Credit;
use crate::gate::Stand;
use crate::line::Place;
use crate::plan::{Going, Hold};
use crate::resource::ClassId;
use crate::scheduler::Scheduler;
use crate::slab::Slot;
use rampmeter_protocol::time::Time;

/// How often one goes from a gate to another before it waits for both.
const MOST_TURNS: u8 = 2;
/// Most who wait so: each is looked at whenever its class is served.
const MOST: usize = 64;

/// The gates to which one was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    last: Option<Slot>,
    count: u8,
}

impl Turns {
    /// The same, and then to `gate`.
    pub(crate) fn and_to(self, gate: Slot) -> Self {
        let another = self.last.is_some_and(|last| last != gate);
        Turns { last: Some(gate), count: self.count.saturating_add(u8::from(another)) }
    }
}

impl<R: Clone> Scheduler<R> {
    /// Whether one that has been sent to gates so often waits for all of its keys from now on.
    pub(crate) fn waits_between(&self, turns: Turns) -> bool {
        turns.count >= MOST_TURNS && self.between.len() < MOST
    }

    /// Starts those whose keys can all pay, and holds for the others what they wait for.
    pub(crate) fn serve_between(&mut self, now: Time, class: ClassId, holds: &mut Vec<Hold>) {
        let of_class = self.between.range((class, Place::FIRST)..=(class, Place::LAST));
        for slot in of_class.map(|(_, slot)| *slot).collect::<Vec<_>>() {
            // One that has just starved is held already.
            if !holds.iter().any(|hold| hold.is_for(slot)) {
                holds.extend(self.serve_one_between(now, class, slot));
            }
        }
    }

    /// What is held for one that has just stood aside, if it waits for all of its keys.
    pub(crate) fn hold_between(&mut self, now: Time, class: ClassId, slot: Slot) -> Option<Hold> {
        let waits = self.permits.get(slot).waiting().aside == Some(Aside::Between);
        waits.then(|| self.serve_one_between(now, class, slot)).flatten()
    }

    fn serve_one_between(&mut self, now: Time, class: ClassId, slot: Slot) -> Option<Hold> {
        if self.turn_away_if_spent(now, slot) {
            return None;
        }
        let tier = self.tier(class);
        let offer = self.offer_or_turn_away(now, slot, tier)?;
        if self.blocking(now, slot, offer, tier).is_some() {
            // Others have other keys: only what is shared holds them up.
            let bill = &self.permits.get(slot).bill;
            let limit = self.ledger.shared_beyond(now, bill, tier, now + self.resource.horizon());
            return Some(self.hold_start(now, slot, offer, tier, limit));
        }
        self.leave_between(self.permits.get(slot).waiting().stand());
        self.join_again(slot, None);
        self.start(now, slot, offer, tier, Going::InTurn);
        None
    }

    /// Notes that one waits for all of its keys.
    pub(crate) fn join_between(&mut self, slot: Slot) {
        let waiting = self.permits.get_mut(slot).waiting_mut();
        waiting.aside = Some(Aside::Between);
        let (class, place) = (waiting.class, waiting.place);
        self.between.insert((class, place), slot);
        self.parked.insert(place, slot);
    }

    /// Notes that one does so no more.
    pub(crate) fn leave_between(&mut self, (class, place): Stand) {
        self.between.remove(&(class, place));
        self.parked.remove(&place);
    }

    /// What those of this class and of more urgent ones will take of a key who wait for that and others.
    pub(crate) fn backlog_between(&self, charge: &KeyCharge, class: ClassId) -> Credit {
        let before = self.between.range(..=(class, Place::LAST)).map(|(_, slot)| &self.permits.get(*slot).bill);
        let same = before.filter_map(|bill| bill.key_of(charge.limit)).filter(|other| other.key == charge.key);
        let rate = self.resource.limits()[charge.limit.index()].rate();
        same.fold(Credit::ZERO, |sum, other| sum + rate.credit(other.amount))
    }
}

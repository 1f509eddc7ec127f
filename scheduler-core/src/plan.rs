//! Late binding: who of those who wait is committed to a start now.
//!
//! In the order of their classes, and those who have starved first, those whose turn it is get the
//! earliest starts that are left. A start within the horizon is committed. One beyond it is only
//! held while the others are looked at, so that nobody takes what it waits for; it
//! is not promised, and the next event may change it. Of its own class only those look for a start
//! that need nothing of the limit it waits for: whoever does would have to wait behind it.

use crate::ledger::Offer;
use crate::limit::Tier;
use crate::permits::{Granted, State};
use crate::resource::{ClassId, LimitId};
use crate::scheduler::{Reason, Scheduler, Wakeup};
use crate::shape::Shape;
use crate::slab::Slot;
use crate::timeline::Key;
use rampmeter_protocol::time::Time;

/// The tier of a promoted request: it has left enough to others.
const TIER_OF_PROMOTED: Tier = 0;

/// Why somebody goes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Going {
    /// Its turn has come.
    InTurn,
    /// It has starved long enough.
    Promoted,
}

/// A start that somebody would get, beyond the horizon.
struct Hold {
    class: ClassId,
    slot: Slot,
    key: Key,
    /// What it waits for.
    limit: LimitId,
}

impl<R: Clone> Scheduler<R> {
    pub(crate) fn plan(&mut self, now: Time) {
        self.replan = false;
        self.refuse_the_late(now);
        let mut holds: Vec<Hold> = Vec::new();
        for class in self.starving(now) {
            let oldest = self.lines[class.index()].oldest();
            holds.extend(oldest.and_then(|(_, slot)| self.take_turn(now, class, slot, Going::Promoted)));
        }
        for class in (0..self.lines.len()).map(|index| ClassId(index as u8)) {
            self.serve_line(now, class, &mut holds);
        }
        self.release(&holds);
        self.next_plan = self.next_plan_after(now, &holds);
    }

    /// Serves a line until everybody in it has to wait.
    fn serve_line(&mut self, now: Time, class: ClassId, holds: &mut Vec<Hold>) {
        let held = holds.iter().filter(|hold| hold.class == class);
        let mut blocked = held.fold(Shape::default(), |blocked, hold| blocked.with(hold.limit));
        while let Some(slot) = self.first_due(class, blocked) {
            if let Some(hold) = self.take_turn(now, class, slot, Going::InTurn) {
                blocked = blocked.with(hold.limit);
                holds.push(hold);
            }
        }
        self.lines[class.index()].hold(now, blocked);
    }

    /// The first in line who needs nothing of what is blocked; of its client's, the one with the earliest deadline.
    fn first_due(&mut self, class: ClassId, blocked: Shape) -> Option<Slot> {
        let line = &self.lines[class.index()];
        let first = line.first(blocked)?;
        let Some(due) = line.due_before(first, self.permits.get(first).waiting()) else { return Some(first) };
        self.swap_turns(class, first, due);
        Some(due)
    }

    /// One that leaves unserved leaves the last turn of its client's: the others move up, and whoever comes next is not
    /// behind for it.
    pub(crate) fn yield_turn(&mut self, slot: Slot) {
        let waiting = self.permits.get(slot).waiting();
        let class = waiting.class;
        if let Some(last) = self.lines[class.index()].last_due(slot, waiting) {
            self.swap_turns(class, slot, last);
        }
    }

    fn swap_turns(&mut self, class: ClassId, one: Slot, other: Slot) {
        let [of_one, of_other] = [one, other].map(|slot| self.permits.get(slot).waiting().standing);
        for (slot, standing) in [(one, of_other), (other, of_one)] {
            self.lines[class.index()].give_turn(slot, self.permits.get_mut(slot).waiting_mut(), standing);
        }
    }

    /// Starts one that waits or refuses it for good; or says what it has to be held for.
    fn take_turn(&mut self, now: Time, class: ClassId, slot: Slot, going: Going) -> Option<Hold> {
        let tier = if going == Going::Promoted { TIER_OF_PROMOTED } else { self.tier(class) };
        let permit = self.permits.get(slot);
        let waiting = permit.waiting();
        let offer = self.ledger.earliest(&self.resource, now, &permit.bill, tier);
        if waiting.deadline.is_some_and(|deadline| offer.at > deadline) {
            self.turn_away(slot, offer.not_in_time(now));
            return None;
        }
        match offer.limited_by {
            Some(limit) if offer.at > now + self.resource.horizon() => {
                let key = Key { at: offer.at, serial: waiting.place.serial };
                self.ledger.commit(&self.resource, now, key, &permit.bill, tier);
                Some(Hold { class, slot, key, limit })
            }
            Some(_) | None => {
                self.start(now, slot, offer, tier, going);
                None
            }
        }
    }

    /// Grants a waiting request the start of `offer`.
    fn start(&mut self, now: Time, slot: Slot, offer: Offer, tier: Tier, going: Going) {
        let permit = self.permits.get_mut(slot);
        let State::Waiting(waiting) = std::mem::replace(&mut permit.state, State::Returned) else {
            unreachable!("only who waits is started")
        };
        let line = &mut self.lines[waiting.class.index()];
        match going {
            Going::InTurn => line.serve(&self.resource, now, slot, &waiting),
            Going::Promoted => line.promote(&self.resource, now, slot, &waiting),
        }
        self.forget_deadline(slot, &waiting);
        let key = Key { at: offer.at, serial: waiting.place.serial };
        let granted = Granted { key, limited_by: offer.limited_by, class: waiting.class, settled: false };
        self.commit(now, slot, granted, tier);
        self.answer(now, slot, waiting.to, granted, now.since(waiting.place.arrived), false);
    }

    fn release(&mut self, holds: &[Hold]) {
        for hold in holds {
            let bill = &self.permits.get(hold.slot).bill;
            self.ledger.withdraw(&self.resource, hold.key, bill);
        }
    }

    /// Refuses those whose deadline can't be kept even if they went first.
    fn refuse_the_late(&mut self, now: Time) {
        while let Some((deadline, _, slot)) = self.deadlines.first().copied() {
            let permit = self.permits.get(slot);
            let tier = self.tier(permit.waiting().class);
            let soonest = self.ledger.earliest(&self.resource, now, &permit.bill, tier);
            if deadline >= soonest.at {
                return;
            }
            let (_, offer) = self.outlook(now, slot);
            self.turn_away(slot, offer.not_in_time(now));
        }
    }

    /// Classes whose oldest request goes ahead of everybody, the longest overdue first.
    fn starving(&self, now: Time) -> Vec<ClassId> {
        let mut due: Vec<(Time, ClassId)> = self.promotions().filter(|(at, _)| *at <= now).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, class)| class).collect()
    }

    fn promotions(&self) -> impl Iterator<Item = (Time, ClassId)> {
        let lines = self.lines.iter().zip(self.resource.classes()).enumerate();
        lines.filter_map(|(index, (line, class))| Some((line.promotion(class)?, ClassId(index as u8))))
    }

    fn next_plan_after(&self, now: Time, holds: &[Hold]) -> Option<Wakeup> {
        let horizon = self.resource.horizon();
        let starts = holds.iter().map(|hold| Wakeup { at: hold.key.at - horizon, reason: Reason::Start });
        let promotions = self.promotions().map(|(at, _)| Wakeup { at, reason: Reason::Promotion });
        let deadline = self.deadlines.first().map(|(at, ..)| Wakeup { at: just_past(*at), reason: Reason::Deadline });
        starts.chain(promotions).chain(deadline).filter(|wakeup| wakeup.at > now).min()
    }
}

/// A deadline is kept at its very instant; a nanosecond later it is missed.
fn just_past(deadline: Time) -> Time {
    deadline + rampmeter_protocol::time::Span::from_nanos(1)
}

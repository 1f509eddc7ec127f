//! Late binding: who of those who wait is committed to a start now.
//!
//! In the order of their classes, and those who have starved first, those whose turn it is get the
//! earliest starts that are left. A start within the horizon is committed. One beyond it is only
//! held while the others are looked at, so that nobody takes what it waits for; it
//! is not promised, and the next event may change it. Of its own class only those look for a start
//! that need nothing of the limit it waits for: whoever does would have to wait behind it, unless it [passes](crate::queue::pass).

use super::Scheduler;
use super::permits::Stage;
use crate::collections::Slot;
use crate::ids::{ClassId, LimitId, Tier};
use crate::ledger::Offer;
use crate::limits::StartKey;
use crate::policy::LimitSet;
use crate::queue::StartReason;
use rampmeter_protocol::time::{Span, Time};

/// The tier of a promoted request: it has left enough to others.
const TIER_OF_PROMOTED: Tier = 0;

/// How often those look again who wait until more is known of the stock.
const LOOK: Span = Span::from_millis(50);

/// So many starts, refusals and looks at keys come with one event, which takes a few hundred microseconds. The next event goes on.
const MOST_STEPS: usize = 256;

/// A start that somebody would get, beyond the horizon.
#[derive(Debug)]
pub(crate) struct HeldStart {
    pub(crate) class: ClassId,
    pub(crate) slot: Slot,
    pub(crate) key: StartKey,
    /// What it waits for, and others with it.
    pub(crate) limit: LimitId,
}

impl<R: Clone> Scheduler<R> {
    pub(crate) fn plan(&mut self, now: Time) {
        if self.delivery.is_held_up() {
            return;
        }
        self.steps_left = MOST_STEPS;
        self.refuse_the_late(now);
        self.refuse_without_quota(now);
        self.look_at_keys(now);
        self.promote(now);
        for class in (0..self.queues.classes().len() as u8).map(ClassId) {
            self.serve_class(now, class);
        }
        self.look_at_keys(now);
        // Buckets are again as they were when they were last looked at.
        let noted = std::mem::take(self.ledger.keys.noted_mut());
        let holds = std::mem::take(&mut self.holds);
        self.release(now, &holds);
        *self.ledger.keys.noted_mut() = noted;
        self.ledger.take_change();
        self.next_plan = if self.steps_left == 0 { Some(just_past(now)) } else { self.next_plan_after(now, &holds) };
    }

    /// Starts those who have starved, or holds the starts that they wait for.
    fn promote(&mut self, now: Time) {
        for (class, slot) in self.starving(now) {
            // One that was just served may have been served for it too.
            if self.starving(now).contains(&(class, slot)) {
                self.take_turn(now, class, slot, StartReason::Promoted);
            }
        }
    }

    /// Serves a line until everybody in it has to wait.
    fn serve_class(&mut self, now: Time, class: ClassId) {
        while let Some(slot) = self.first_due(class, self.blocked(class)) {
            if !self.take_step() {
                return;
            }
            self.take_turn(now, class, slot, StartReason::InTurn);
        }
        let blocked = self.blocked(class);
        self.queues.class_mut(class).hold(now, blocked);
        self.backfill(now, class);
    }

    /// The limits that those of a class are held for.
    fn blocked(&self, class: ClassId) -> LimitSet {
        let held = self.holds.iter().filter(|hold| hold.class == class);
        held.fold(LimitSet::default(), |blocked, hold| blocked.with(hold.limit))
    }

    /// Counts one of the steps that this event has time for, if it has any left.
    pub(crate) fn take_step(&mut self) -> bool {
        let has_time = self.steps_left > 0;
        self.steps_left -= usize::from(has_time);
        has_time
    }

    /// The first in line who needs nothing of what is blocked; of its client's, the one with the earliest deadline.
    fn first_due(&mut self, class: ClassId, blocked: LimitSet) -> Option<Slot> {
        let queue = self.queues.class(class);
        let first = queue.first(blocked)?;
        let Some(due) = queue.due_before(self.permits.get(first).waiting()) else { return Some(first) };
        self.swap_turns(class, first, due);
        Some(due)
    }

    fn swap_turns(&mut self, class: ClassId, one: Slot, other: Slot) {
        let queue = self.queues.class_mut(class);
        let [of_one, of_other] = [one, other].map(|slot| {
            let waiting = self.permits.get(slot).waiting();
            queue.take_out(&self.resource, waiting);
            waiting.position
        });
        for (slot, position) in [(one, of_other), (other, of_one)] {
            let permit = self.permits.get_mut(slot);
            permit.waiting_mut().position = position;
            queue.join(&self.resource, slot, &permit.bill, permit.waiting());
        }
    }

    /// Starts one that waits, refuses it for good, or holds the start that it waits for.
    fn take_turn(&mut self, now: Time, class: ClassId, slot: Slot, going: StartReason) {
        let tier = if going == StartReason::Promoted { TIER_OF_PROMOTED } else { self.tier(class) };
        // Before it stands aside: nobody waits for a quota, of a key or not.
        if self.turn_away_if_spent(now, slot) {
            return;
        }
        if !self.wait_for_key(now, slot, tier) {
            self.start_or_hold(now, slot, tier, going, Time::NEVER);
        }
        // Of each of its keys the next may follow.
        self.look_at_keys(now);
    }

    /// Starts one that no key of its own holds up, refuses it for good, or holds its start if that is not after `latest`.
    pub(crate) fn start_or_hold(&mut self, now: Time, slot: Slot, tier: Tier, going: StartReason, latest: Time) {
        let Some(offer) = self.offer_or_turn_away(now, slot, tier) else { return };
        match self.blocking(now, slot, offer, tier) {
            None => self.start(now, slot, offer, tier, going),
            Some(limit) if offer.at <= latest => self.hold_start(now, slot, offer, tier, limit),
            Some(_) => {}
        }
    }

    /// Refuses one that waits for good if a quota is spent that it needs. Whether that is so.
    pub(crate) fn turn_away_if_spent(&mut self, now: Time, slot: Slot) -> bool {
        let Some(refusal) = self.spent_quota(now, &self.permits.get(slot).bill) else { return false };
        self.turn_away(slot, refusal);
        true
    }

    /// Refuses requests that need a quota which is gone by the upstream's word, in line and at gates.
    fn refuse_without_quota(&mut self, now: Time) {
        while let Some(slot) = self.without_quota(now)
            && self.take_step()
        {
            self.turn_away_if_spent(now, slot);
        }
    }

    fn without_quota(&self, now: Time) -> Option<Slot> {
        let spent = self.ledger.spent(now);
        let mut needing = self.queues.classes().iter().flat_map(|queue| queue.needing(spent));
        needing.find(|slot| self.spent_quota(now, &self.permits.get(*slot).bill).is_some())
    }

    /// The start that one which waits could have now; it is refused for good if that is too late.
    fn offer_or_turn_away(&mut self, now: Time, slot: Slot, tier: Tier) -> Option<Offer> {
        let permit = self.permits.get(slot);
        let offer = self.ledger.earliest(now, &permit.bill, tier);
        let too_late = |deadline| offer.at > deadline && self.ledger.soonest(now, &permit.bill, tier) > deadline;
        if permit.waiting().deadline.is_some_and(too_late) {
            self.turn_away(slot, offer.not_in_time(now));
            return None;
        }
        Some(offer)
    }

    /// Keeps the start of `offer` for one that can't have it yet, from others who are looked at after it.
    fn hold_start(&mut self, now: Time, slot: Slot, offer: Offer, tier: Tier, limit: LimitId) {
        let permit = self.permits.get(slot);
        let (class, serial) = (permit.waiting().class, permit.waiting().arrival.serial);
        // What is held for the store's sake could start now; but what has started can't be withdrawn.
        let key = StartKey { at: offer.at.max(just_past(now)), serial };
        self.ledger.commit(now, key, &permit.bill, tier);
        self.holds.push(HeldStart { class, slot, key, limit });
    }

    /// What keeps one that waits from its start: a limit that pays for it later, or that the store allows too little of.
    fn blocking(&mut self, now: Time, slot: Slot, offer: Offer, tier: Tier) -> Option<LimitId> {
        let bill = &self.permits.get(slot).bill;
        let latest = now + self.resource.spec().horizon;
        if offer.at > latest {
            // A limit that could pay in time blocks no other request, even if it moved the start
            // last. Other requests have other keys.
            let shared = offer.limited_by.filter(|limit| bill.key_charge(*limit).is_none());
            let any = || shared.or_else(|| bill.iter().next().map(|(id, _)| id));
            return self.ledger.shared_beyond(now, bill, tier, latest).or_else(any).or(offer.limited_by);
        }
        if let Some(limit) = self.ledger.unproven(now, bill) {
            return Some(limit);
        }
        let grant_budget =
            self.grant_budget.as_mut().filter(|grant_budget| !grant_budget.covers(&self.resource, bill, offer.at))?;
        grant_budget.note_shortage(&self.resource, bill, offer.at.since(now));
        grant_budget.lacking(&self.resource, bill)
    }

    /// Grants a waiting request the start of `offer`.
    fn start(&mut self, now: Time, slot: Slot, offer: Offer, tier: Tier, going: StartReason) {
        let waiting = self.stop_waiting(slot);
        self.queues.class_mut(waiting.class).leave(&self.resource, &waiting, Some((now, going)));
        let granted = self.next_start(offer, waiting.class, Stage::Told);
        self.commit(now, slot, granted, tier, waiting.deadline.unwrap_or(Time::NEVER));
        self.answer(now, slot, waiting.to, granted, now.since(waiting.arrival.at), false);
    }

    fn release(&mut self, now: Time, holds: &[HeldStart]) {
        for hold in holds {
            let bill = &self.permits.get(hold.slot).bill;
            self.ledger.withdraw(now, hold.key, bill);
        }
    }

    /// Refuses those whose deadline can't be kept even if they went first.
    fn refuse_the_late(&mut self, now: Time) {
        while let Some((deadline, slot)) = self.queues.first_deadline()
            && self.take_step()
        {
            let permit = self.permits.get(slot);
            let tier = self.tier(permit.waiting().class);
            let soonest = self.ledger.soonest(now, &permit.bill, tier);
            if deadline >= soonest {
                return;
            }
            let (_, offer) = self.outlook(now, slot);
            self.turn_away(slot, offer.not_in_time(now));
        }
    }

    /// Those who go ahead of everybody, the longest overdue first.
    fn starving(&self, now: Time) -> Vec<(ClassId, Slot)> {
        let mut due: Vec<(Time, ClassId, Slot)> = self.promotions().filter(|(at, ..)| *at <= now).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, class, slot)| (class, slot)).collect()
    }

    fn promotions(&self) -> impl Iterator<Item = (Time, ClassId, Slot)> {
        let queues = self.queues.classes().iter().zip(self.resource.classes_by_id());
        queues.flat_map(|(queue, (id, class))| queue.promotions(class).map(move |(at, slot)| (at, id, slot)))
    }

    fn next_plan_after(&self, now: Time, holds: &[HeldStart]) -> Option<Time> {
        let starts = holds.iter().map(|hold| hold.key.at - self.resource.spec().horizon);
        let promotions = self.promotions().map(|(at, ..)| at);
        let key_queue = self.next_key_alarm().map(|at| at.max(just_past(now)));
        let deadline = self.queues.first_deadline().map(|(at, _)| just_past(at));
        let slow_start = (self.ledger.is_doubted() && !holds.is_empty()).then_some(now + LOOK);
        starts.chain(promotions).chain(key_queue).chain(deadline).chain(slow_start).filter(|at| *at > now).min()
    }
}

/// The next instant: a deadline is kept at its very own, and missed then.
pub(crate) fn just_past(time: Time) -> Time {
    time + Span::from_nanos(1)
}

//! Late binding: which waiting requests are committed to a start now.
//!
//! Starved requests go first, then the classes in their order, and within a class the turns decide.
//! Each request gets the earliest start that is left, and is committed to it if it is within the
//! horizon. A later start is only *held* during this dispatch, so that no other request takes it:
//! it is not promised, and the next event may change it. A held request blocks the requests of its
//! class that need the same limit.
//!
//! A request that does not fit into the rest of a window waits for the next window. Meanwhile
//! smaller requests of its class backfill what would be lost when the window ends. They delay no
//! request, because the held start is kept. Their starts count towards their clients' shares, so
//! that no client has more than its share for long.
//!
//! A request that a key's bucket holds up waits in the queue of that key, and blocks no request
//! with other keys. The first request of a key queue moves to the queue of its class once the key
//! can pay for it. If another key holds it up there, it moves to the queue of that key, and the
//! first key reserves the needed amount until the other can pay. Each key reserves for one request
//! only, and only while that is the next request of the other key. Of requests that wait for each
//! other's keys, the earliest goes on, so no request waits for ever. A key without a budget of the
//! latest checkpoint waits for the next one, which lists it.
//!
//! A dispatch takes 256 steps: starts, refusals and examined keys. The next event, due a nanosecond
//! later, continues there, before any less urgent class. So no other answer is delayed while a
//! window pays for 100 000 requests.

use crate::collections::Slot;
use crate::ledger::{Ledger, Offer};
use crate::limits::{SETTLED_WITHIN, StartKey, just_past};
use crate::permits::Stage;
use crate::queue::{Needs, Service, ServiceCount, StartReason};
use crate::scheduler::Scheduler;
use crate::scheduler::dispatch_plan::HeldStart;
use rampmeter_policy::ids::{ClassId, LimitId, Tier};
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::{Bill, KeyCharge, LimitSet};
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

/// How often requests that wait for proven stock are dispatched again.
const RECHECK: Span = Span::from_millis(50);
/// The most requests that are tried to backfill a window: enough to use nearly all of the rest.
const MAX_CANDIDATES: usize = 64;

impl<R: Clone> Scheduler<R> {
    /// Grants waiting requests their starts until no capacity is left within the horizon.
    pub(crate) fn dispatch(&mut self, now: Time) {
        if self.answers_are_late {
            return;
        }
        self.plan.begin();
        self.refuse_late(now);
        self.refuse_without_quota(now);
        self.examine_keys(now);
        self.promote(now);
        for class in (0..self.queues.classes().len()).map(ClassId::of_index) {
            self.serve_class(now, class);
        }
        self.examine_keys(now);
        let holds = std::mem::take(&mut self.plan.holds);
        let charged = holds.iter().map(|hold| (hold.start, &*hold.bill));
        self.ledger.withdraw_holds(now, charged);
        self.plan.next = match self.plan.has_steps() {
            true => self.next_dispatch_after(now, &holds),
            false => Some(just_past(now)),
        };
    }

    fn promote(&mut self, now: Time) {
        for (class, slot) in self.starving() {
            // A start may have ended the starvation of other requests of its class.
            if self.starving().contains(&(class, slot)) {
                self.take_turn(now, class, slot, StartReason::Promoted);
            }
        }
    }

    fn serve_class(&mut self, now: Time, class: ClassId) {
        while let Some(slot) = self.next_in_turn(class) {
            if !self.plan.take_step() {
                return;
            }
            self.take_turn(now, class, slot, StartReason::InTurn);
        }
        let blocked = self.plan.blocked(class);
        self.queues.class_mut(class).set_contended(now, blocked);
        self.backfill(now, class);
    }

    /// Returns the first request of `class` that is not held and has an alternative that is not
    /// blocked, as far as known.
    fn next_in_turn(&self, class: ClassId) -> Option<Slot> {
        let blocked = self.plan.blocked(class);
        let is_open = |needs: Needs| needs.all.avoids(blocked) && !self.plan.is_exhausted(class, needs);
        self.queues.class(class).order.first_unheld(is_open, |slot| self.plan.is_held(slot)).map(|entry| entry.slot)
    }

    /// Starts requests of `class` that fit into the rest of windows for which others are held.
    fn backfill(&mut self, now: Time, class: ClassId) {
        let Some((until, slots)) = self.candidates(class) else { return };
        let tier = self.resource.tier(class);
        for slot in slots {
            if self.blocking_key(slot, tier).is_none() {
                self.start_or_hold(now, slot, tier, StartReason::Backfilled, until - Span::from_nanos(1));
            }
        }
    }

    /// Returns the first start that `class` holds in a window, and the requests that fit before it.
    fn candidates(&self, class: ClassId) -> Option<(Time, Vec<Slot>)> {
        let windowed = self.resource.windowed();
        let held: Vec<&HeldStart> = self.plan.holds_of(class).filter(|hold| windowed.has(hold.limit)).collect();
        let until = held.iter().map(|hold| hold.start.at).min()?;
        let amount = |hold: &HeldStart| hold.bill.get(hold.limit);
        // A request that needs as much as the held one cannot fit either.
        let fits = |bill: &Bill| bill.options().any(|one| held.iter().all(|hold| one.get(hold.limit) < amount(hold)));
        let is_held = |slot: Slot| self.plan.is_held(slot);
        let front = self.queues.class(class).order.front(MAX_CANDIDATES);
        let fitting = front.filter(|(slot, bill)| fits(bill) && !is_held(*slot));
        Some((until, fitting.map(|(slot, _)| slot).collect()))
    }

    /// Whether a new request of `class` may backfill a window before the next dispatch. `earliest`
    /// is the start that it would get if no other request waited.
    pub(crate) fn may_backfill(&self, class: ClassId, earliest: Time) -> bool {
        let contended = self.queues.class(class).contended().and(self.resource.windowed());
        let before = |next: Time| earliest - self.resource.spec().horizon < next;
        contended != LimitSet::NONE && self.plan.next.is_none_or(before)
    }

    /// Whether a request behind others with the same needs may start before them, because the last
    /// dispatch has not held a start at each alternative, or they wait for settles.
    pub(crate) fn may_take_another(&self, slot: Slot) -> bool {
        let permit = self.permits.get(slot);
        let (needs, class) = (permit.waiting().position.tree, permit.waiting().class);
        (permit.bill.alternatives.is_some() || self.plan.next_reset.is_some())
            && !self.plan.is_exhausted(class, needs)
            && needs.all.avoids(self.queues.class(class).contended())
    }

    /// Starts a waiting request, refuses it, holds its start, or lets it wait for a key.
    fn take_turn(&mut self, now: Time, class: ClassId, slot: Slot, reason: StartReason) {
        let tier = if reason == StartReason::Promoted { Tier::NO_HEADROOM } else { self.resource.tier(class) };
        // This comes first, because no request waits for a quota, even for that of a key.
        if self.turn_away_if_spent(now, slot) {
            return;
        }
        if !self.wait_for_key(now, slot, tier) {
            self.start_or_hold(now, slot, tier, reason, Time::NEVER);
        }
        // The next request of each of its keys may follow.
        self.examine_keys(now);
    }

    /// Starts a request that no key holds up, refuses it, or holds its start if not after `latest`.
    fn start_or_hold(&mut self, now: Time, slot: Slot, tier: Tier, reason: StartReason, latest: Time) {
        // What goes first, or into the rest of a window, does not stand behind held requests.
        let class = self.permits.get(slot).waiting().class;
        let blocked = if reason == StartReason::InTurn { self.plan.blocked(class) } else { LimitSet::NONE };
        let Some((bill, offer)) = self.offer_or_turn_away(now, slot, tier, blocked) else { return };
        match self.blocking(now, slot, &bill, offer, tier) {
            None => self.start(now, slot, bill, offer, tier, reason),
            Some(limit) if offer.at <= latest => self.hold_start(now, slot, bill, offer, tier, limit),
            Some(_) => {}
        }
    }

    pub(crate) fn turn_away_if_spent(&mut self, now: Time, slot: Slot) -> bool {
        let Some(refusal) = self.spent_quota(now, &self.permits.get(slot).bill) else { return false };
        self.turn_away(slot, refusal);
        true
    }

    /// Refuses all waiting requests that need a spent quota, also those in key queues.
    fn refuse_without_quota(&mut self, now: Time) {
        while let Some(slot) = self.without_quota(now)
            && self.plan.take_step()
        {
            self.turn_away_if_spent(now, slot);
        }
    }

    fn without_quota(&self, now: Time) -> Option<Slot> {
        let spent = self.ledger.spent_quotas(now);
        let mut needing = self.queues.classes().iter().flat_map(|queue| queue.needing(spent));
        needing.find(|slot| self.spent_quota(now, &self.permits.get(*slot).bill).is_some())
    }

    /// Returns the option that a waiting request could have now without the `blocked` limits, with
    /// its start, or refuses the request if that is too late.
    pub(crate) fn offer_or_turn_away(
        &mut self,
        now: Time,
        slot: Slot,
        tier: Tier,
        blocked: LimitSet,
    ) -> Option<(Arc<Bill>, Offer)> {
        let permit = self.permits.get(slot);
        let (whole, waiting) = (&permit.bill, permit.waiting());
        let choice = self.choose(whole, waiting.came, blocked, |bill| self.ledger.earliest(now, bill, tier));
        let Some(choice) = choice else {
            self.plan.exhausted.push((waiting.class, waiting.position.tree));
            return None;
        };
        let offer = choice.offer;
        let is_ahead = offer.at > now + self.resource.spec().horizon;
        if is_ahead && self.ledger.quota_expecting_settles(now, choice.alternative.unwrap_or(whole)).is_some() {
            // It starts, or is refused, when calls in flight are settled, or at the reset.
            self.plan.pass(waiting.class, waiting.position.tree, slot, offer.at);
            return None;
        }
        if waiting.deadline.is_some_and(|deadline| self.misses(whole, tier, offer, deadline)) {
            let refusal = self.late(whole, offer);
            self.turn_away(slot, refusal);
            return None;
        }
        Some((Arc::clone(choice.alternative.unwrap_or(whole)), offer))
    }

    /// Keeps the start of `offer` free from requests that are dispatched later.
    fn hold_start(&mut self, now: Time, slot: Slot, bill: Arc<Bill>, offer: Offer, tier: Tier, limit: LimitId) {
        let permit = self.permits.get(slot);
        let (class, serial) = (permit.waiting().class, permit.waiting().arrival.serial);
        // A start that waits for the store may be due now, but only a future one can be withdrawn.
        let start = StartKey { at: offer.at.max(just_past(now)), serial };
        let due = offer.at - self.resource.spec().horizon;
        self.ledger.commit(now, start, &bill, tier);
        self.plan.holds.push(HeldStart { class, slot, bill, start, due, limit });
    }

    /// Returns the limit that keeps a waiting request from its start: it can pay only later, or the
    /// store allows too little of it.
    fn blocking(&mut self, now: Time, slot: Slot, bill: &Bill, offer: Offer, tier: Tier) -> Option<LimitId> {
        let latest = now + self.resource.spec().horizon;
        if offer.at > latest {
            // A limit that can pay in time must not block other requests, even if it moved the
            // start last. Nor must a key, as other requests have other keys.
            let shared = offer.limited_by.filter(|limit| bill.key_charge(*limit).is_none());
            let any = || shared.or_else(|| bill.shared().next().map(|(id, _)| id));
            return self.ledger.blocking_shared_limit(now, bill, tier, latest).or_else(any).or(offer.limited_by);
        }
        if let Some(limit) = self.ledger.unproven(now, bill) {
            return Some(limit);
        }
        if self.is_covered(bill, offer.at) {
            return None;
        }
        let whole = &self.permits.get(slot).bill;
        self.term.budget.note_shortage(&self.resource, whole, bill, offer.at.since(now));
        self.term.budget.lacking(&self.resource, bill)
    }

    fn start(&mut self, now: Time, slot: Slot, bill: Arc<Bill>, offer: Offer, tier: Tier, reason: StartReason) {
        assert!(offer.at <= now + self.resource.spec().horizon, "a start beyond the horizon is only held");
        let waiting = self.stop_waiting(slot);
        let bucket = |charge: &KeyCharge| self.ledger.keys.find(charge.limit, &charge.key);
        let keys = bill.keyed().filter_map(|charge| Some((charge, bucket(charge)?)));
        let charged = bill.charged().fold(LimitSet::NONE, LimitSet::with);
        self.queues.serve(&self.resource, &waiting, keys, Service { now, reason }, charged);
        let (share, waited) = (self.resource.dominant_share(&bill), offer.at.since(waiting.arrival.at));
        let service = ServiceCount::of_grant(share, waited, reason == StartReason::Promoted);
        if self.permits.get(slot).bill.alternatives.is_some() {
            self.permits.set_bill(slot, (*bill).clone());
        }
        self.recent.note(now, waiting.class, self.permits.get(slot).bill.client, &service);
        let granted = self.next_start(offer, waiting.class, Stage::Sent);
        self.commit(now, slot, granted, tier, waiting.deadline.unwrap_or(Time::NEVER));
        self.answer(now, slot, waiting.to, granted, Some(now.since(waiting.arrival.at)));
    }

    /// Refuses requests whose deadlines would be missed even if they went first.
    fn refuse_late(&mut self, now: Time) {
        while let Some((deadline, slot)) = self.queues.first_deadline()
            && self.plan.take_step()
        {
            let permit = self.permits.get(slot);
            let tier = self.resource.tier(permit.waiting().class);
            let soonest = self.earliest_once_settled(&permit.bill, tier);
            if deadline >= soonest {
                return;
            }
            let (_, offer) = self.outlook(slot);
            let is_held_by_store = offer.at <= deadline.max(now) && self.is_held_by_store(&permit.bill);
            let late = || self.late(&self.permits.get(slot).bill, offer);
            let refusal = if is_held_by_store { Refusal::StoreSilent } else { late() };
            self.turn_away(slot, refusal);
        }
    }

    fn next_dispatch_after(&self, now: Time, holds: &[HeldStart]) -> Option<Time> {
        let starts = holds.iter().map(|hold| hold.due);
        let promotions = self.promotions().map(|(at, ..)| at);
        let horizon = self.resource.spec().horizon;
        let key_queue = self.queues.keys.next_alarm().map(|(alarm, _)| (alarm - horizon).max(just_past(now)));
        let deadline = self.queues.first_deadline().map(|(at, _)| just_past(at));
        let slow_start = (self.ledger.has_unproven() && !holds.is_empty()).then_some(now + RECHECK);
        let settles = self.plan.next_reset.map(|at| (at - horizon).max(just_past(now)).min(now + SETTLED_WITHIN));
        starts
            .chain(promotions)
            .chain(key_queue)
            .chain(deadline)
            .chain(slow_start)
            .chain(settles)
            .filter(|at| *at > now)
            .min()
    }
}

pub(in crate::scheduler) fn keys_of(ledger: &Ledger, bill: &Bill) -> Vec<Slot> {
    bill.keyed().filter_map(|charge| ledger.keys.find(charge.limit, &charge.key)).collect()
}

impl<R: Clone> Scheduler<R> {
    /// Moves a request from the queue of its class to that of a key that holds it up, if one does.
    pub(crate) fn wait_for_key(&mut self, now: Time, slot: Slot, tier: Tier) -> bool {
        let Some(charge) = self.blocking_key(slot, tier).cloned() else { return false };
        let bucket = self.ledger.keys.find_or_insert(now, &charge);
        self.ledger.keys.set_awaited(bucket, true);
        let cost = self.resource.credit(charge.limit, charge.amount);
        let permit = self.permits.get_mut(slot);
        let bill = Arc::clone(&permit.bill);
        self.queues.wait_for_key(&self.resource, slot, permit.waiting_mut(), (bucket, cost));
        keys_of(&self.ledger, &bill).into_iter().for_each(|key| self.ledger.keys.note_change(key));
        true
    }

    /// Examines each key that has changed, or whose alarm goes off.
    pub(crate) fn examine_keys(&mut self, now: Time) {
        let latest = now + self.resource.spec().horizon;
        while self.plan.has_steps()
            && let Some(bucket) =
                self.ledger.keys.changed.pop_first().or_else(|| self.queues.keys.next_alarm_until(latest))
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
        let Some((_, first)) = queue.and_then(|queue| queue.first(self.resource.classes(), now)) else {
            let is_awaited = !self.queues.keys.close_deserted(bucket);
            return self.ledger.keys.set_awaited(bucket, is_awaited);
        };
        let permit = self.permits.get(first);
        let limit = self.ledger.keys.get(bucket).expect("a bucket with a key queue stays").limit;
        let charge = permit.bill.key_charge(limit).expect("a request in a key queue is charged for its key").clone();
        let due = self.earliest_of_key(first, &charge, self.resource.tier(permit.waiting().class));
        if due <= latest && self.lacks_budget(&charge) {
            self.term.budget.note_key_shortage();
            return self.queues.keys.wait_for_budget(bucket);
        }
        if due <= latest {
            self.admit(bucket, first);
            return self.queues.keys.set_alarm(bucket, just_past(latest));
        }
        let is_quota = self.resource[limit].is_quota();
        // A refused request notes its key, which is examined again.
        if !is_quota || !self.turn_away_if_spent(now, first) {
            self.queues.keys.set_alarm(bucket, if is_quota { due.min(now + SETTLED_WITHIN) } else { due });
        }
    }

    fn admit(&mut self, bucket: Slot, slot: Slot) {
        let is_kept_for_another = self.kept_before(slot, bucket).is_some();
        self.queues.move_to_class_queue(slot, self.permits.get_mut(slot).waiting_mut(), bucket, !is_kept_for_another);
        self.enter_queue(slot);
    }
}

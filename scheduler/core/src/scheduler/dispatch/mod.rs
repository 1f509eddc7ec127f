//! Late binding: which waiting requests are committed to a start now.
//!
//! Starved requests go first, then the classes in their order. Within a class, the turns decide.
//! Each request gets the earliest start that is left, and is committed to it if it is within the
//! horizon. A later start is only held during this dispatch, so that no other request takes it. It
//! is not promised, and the next event may change it. A held request blocks the requests of its
//! class that need the same limit, unless they [backfill] a window.
//!
//! A dispatch takes 256 steps: starts, refusals and looks at keys. The next event, due a nanosecond
//! later, goes on there, before any less urgent class. So no other answer is delayed while a window
//! pays for 100 000 requests.

pub(super) mod backfill;
pub(super) mod key_waits;
pub(super) mod plan;

use super::Scheduler;
use super::dispatch::backfill::candidates;
use super::dispatch::plan::HeldStart;
use super::granting::Answered;
use crate::collections::Slot;
use crate::ids::{ClassId, LimitId, Tier};
use crate::ledger::Offer;
use crate::limits::{StartKey, just_past};
use crate::permits::Stage;
use crate::policy::KeyCharge;
use crate::queue::{GrantedService, Service, StartReason};
use crate::refusal::Refusal;
use rampmeter_protocol::time::{Span, Time};

/// How often requests that wait for proven stock are dispatched again.
const RECHECK: Span = Span::from_millis(50);

impl<R: Clone> Scheduler<R> {
    /// Commits waiting requests to starts, as far as starts are left.
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
        let holds = self.plan.take_holds();
        let charged = holds.iter().map(|hold| (hold.start, &*self.permits.get(hold.slot).bill));
        self.ledger.withdraw_holds(now, charged);
        self.plan.set_next(match self.plan.has_steps() {
            true => self.next_dispatch_after(now, &holds),
            false => Some(just_past(now)),
        });
    }

    /// Starts starved requests, or holds the starts that they wait for.
    fn promote(&mut self, now: Time) {
        for (class, slot) in self.waits(now).starving() {
            // A start may have ended the starvation of other requests of its class.
            if self.waits(now).starving().contains(&(class, slot)) {
                self.take_turn(now, class, slot, StartReason::Promoted);
            }
        }
    }

    /// Serves a class queue until every request in it has to wait.
    fn serve_class(&mut self, now: Time, class: ClassId) {
        while let Some(slot) = self.queues.class(class).first(self.plan.blocked(class)) {
            if !self.plan.take_step() {
                return;
            }
            self.take_turn(now, class, slot, StartReason::InTurn);
        }
        let blocked = self.plan.blocked(class);
        self.queues.set_contended(now, class, blocked);
        self.backfill(now, class);
    }

    /// Starts requests of `class` that fit into the rest of windows for which earlier requests are
    /// held.
    fn backfill(&mut self, now: Time, class: ClassId) {
        let Some((until, slots)) = candidates(&self.waits(now), &self.plan, class) else { return };
        let tier = self.resource.tier(class);
        for slot in slots {
            if self.waits(now).blocking_key(slot, tier).is_none() {
                self.start_or_hold(now, slot, tier, StartReason::Backfilled, until - Span::from_nanos(1));
            }
        }
    }

    /// Starts a waiting request, refuses it, or holds its start, or lets it wait for a key.
    fn take_turn(&mut self, now: Time, class: ClassId, slot: Slot, reason: StartReason) {
        // A promoted request has starved.
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

    /// Starts a request that no key holds up, refuses it, or holds its start if that is not after
    /// `latest`.
    fn start_or_hold(&mut self, now: Time, slot: Slot, tier: Tier, reason: StartReason, latest: Time) {
        let Some(offer) = self.offer_or_turn_away(now, slot, tier) else { return };
        match self.blocking(now, slot, offer, tier) {
            None => self.start(now, slot, offer, tier, reason),
            Some(limit) if offer.at <= latest => self.hold_start(now, slot, offer, tier, limit),
            Some(_) => {}
        }
    }

    /// Refuses a waiting request if a quota that it needs is spent. Returns whether it is spent.
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

    /// The start that a waiting request could have now; it is refused if that is too late.
    pub(crate) fn offer_or_turn_away(&mut self, now: Time, slot: Slot, tier: Tier) -> Option<Offer> {
        let permit = self.permits.get(slot);
        let offer = self.ledger.earliest(now, &permit.bill, tier);
        let too_late = |deadline| self.ledger.misses(now, &permit.bill, tier, offer, deadline);
        if permit.waiting().deadline.is_some_and(too_late) {
            self.turn_away(slot, offer.not_in_time(now));
            return None;
        }
        Some(offer)
    }

    /// Keeps the start of `offer` free from requests that are dispatched later.
    fn hold_start(&mut self, now: Time, slot: Slot, offer: Offer, tier: Tier, limit: LimitId) {
        let permit = self.permits.get(slot);
        let (class, serial) = (permit.waiting().class, permit.waiting().arrival.serial);
        // A start that waits for the store may be due now, but only a future one can be withdrawn.
        let start = StartKey { at: offer.at.max(just_past(now)), serial };
        let due = offer.at - self.resource.spec().horizon;
        self.ledger.commit(now, start, &permit.bill, tier);
        self.plan.hold(HeldStart { class, slot, start, due, limit });
    }

    /// The limit that keeps a waiting request from its start: it can pay only later, or the store
    /// allows too little of it.
    fn blocking(&mut self, now: Time, slot: Slot, offer: Offer, tier: Tier) -> Option<LimitId> {
        let bill = &self.permits.get(slot).bill;
        let latest = now + self.resource.spec().horizon;
        if offer.at > latest {
            // A limit that can pay in time must not block other requests, even if it moved the
            // start last. A key must not either, as other requests have other keys.
            let shared = offer.limited_by.filter(|limit| bill.key_charge(*limit).is_none());
            let any = || shared.or_else(|| bill.shared().next().map(|(id, _)| id));
            return self.ledger.blocking_shared_limit(now, bill, tier, latest).or_else(any).or(offer.limited_by);
        }
        if let Some(limit) = self.ledger.unproven(now, bill) {
            return Some(limit);
        }
        if self.waits(now).is_covered(bill, offer.at) {
            return None;
        }
        self.term.budget_mut().note_shortage(&self.resource, bill, offer.at.since(now));
        self.term.budget().lacking(&self.resource, bill)
    }

    /// Grants a waiting request the start of `offer`.
    fn start(&mut self, now: Time, slot: Slot, offer: Offer, tier: Tier, reason: StartReason) {
        assert!(offer.at <= now + self.resource.spec().horizon, "a start beyond the horizon is only held");
        let waiting = self.stop_waiting(slot);
        let bill = &self.permits.get(slot).bill;
        let bucket = |charge: &KeyCharge| self.ledger.keys.find(charge.limit, &charge.key);
        let keys = bill.keyed().filter_map(|charge| Some((charge, bucket(charge)?)));
        self.queues.serve(&self.resource, &waiting, keys, Service { now, reason });
        let granted = self.next_start(offer, waiting.class, Stage::Sent);
        let service = GrantedService {
            class: waiting.class,
            client: Some(&waiting.client),
            share: self.resource.dominant_share(&self.permits.get(slot).bill),
            waited: granted.start.at.since(waiting.arrival.at),
            is_promoted: reason == StartReason::Promoted,
        };
        self.recent.note(now, &service);
        self.commit(now, slot, granted, tier, waiting.deadline.unwrap_or(Time::NEVER));
        self.answer(now, slot, waiting.to, granted, Answered::AfterWaiting(now.since(waiting.arrival.at)));
    }

    /// Refuses requests whose deadlines would be missed even if they went first.
    fn refuse_late(&mut self, now: Time) {
        while let Some((deadline, slot)) = self.queues.first_deadline()
            && self.plan.take_step()
        {
            let permit = self.permits.get(slot);
            let tier = self.resource.tier(permit.waiting().class);
            let soonest = self.ledger.earliest_once_settled(now, &permit.bill, tier);
            if deadline >= soonest {
                return;
            }
            let (_, offer) = self.waits(now).outlook(slot);
            let is_held_by_store = offer.at <= deadline.max(now) && self.waits(now).is_held_by_store(&permit.bill);
            self.turn_away(slot, if is_held_by_store { Refusal::StoreSilent } else { offer.not_in_time(now) });
        }
    }

    fn next_dispatch_after(&self, now: Time, holds: &[HeldStart]) -> Option<Time> {
        let starts = holds.iter().map(|hold| hold.due);
        let promotions = self.waits(now).promotions().map(|(at, ..)| at);
        let key_queue = self.next_key_alarm().map(|at| at.max(just_past(now)));
        let deadline = self.queues.first_deadline().map(|(at, _)| just_past(at));
        let slow_start = (self.ledger.has_unproven() && !holds.is_empty()).then_some(now + RECHECK);
        starts.chain(promotions).chain(key_queue).chain(deadline).chain(slow_start).filter(|at| *at > now).min()
    }
}

//! What keeps a request from its start: the limit, the reason, and the state of the bucket.

use crate::arithmetic::Credit;
use crate::fencing::Term;
use crate::ids::{LimitId, Tier};
use crate::ledger::Offer;
use crate::limits::Bucket;
use crate::permits::{Permit, ToldStarts};
use crate::policy::{Bill, Limit};
use crate::queue::Waiting;
use crate::scheduler::waits::Waits;
use rampmeter_protocol::reason::{Holder, Reason};
use rampmeter_protocol::time::{Span, Time};

/// Requests at the front of a queue that are compared with one request, to find out whether other
/// clients go before it.
const MAX_COMPARED: usize = 64;

/// What delays a request.
pub(super) struct Obstacle {
    pub(super) limit: Option<LimitId>,
    pub(super) reason: Reason,
}

/// What delays requests at `now`, and whether the store or late answers do.
#[derive(Debug)]
pub(super) struct Reasons<'a, R> {
    pub(super) now: Time,
    pub(super) waits: Waits<'a, R>,
    pub(super) term: &'a Term,
    pub(super) told: &'a ToldStarts,
}

impl<R> Reasons<'_, R> {
    /// What delays a waiting request, which will probably start as `expected`. During a change of
    /// limits it is not known of all requests.
    pub(super) fn obstacle(&self, permit: &Permit<R>, position: u64, expected: Offer) -> Obstacle {
        let (now, bill, waiting) = (self.now, &permit.bill, permit.waiting());
        if self.waits.queues.is_former(waiting) {
            return Obstacle { limit: None, reason: Reason::Turn };
        }
        let tier = self.waits.resource.tier(waiting.class);
        let at_key = self.waits.key_queue_of(waiting).map(|(limit, _)| limit);
        let alone = || self.waits.ledger.earliest(now, bill, tier).limited_by;
        let limit = expected.limited_by.or(at_key).or_else(alone);
        let in_bucket = limit.and_then(|limit| self.obstacle_in(bill, limit, tier));
        let (limit, reason) = match in_bucket {
            Some(Reason::Stock | Reason::InFlight) | None if self.is_passed(permit) => (limit, Reason::Share),
            Some(reason) => (limit, reason),
            None if position > 0 || at_key.is_some() => (limit, Reason::Turn),
            None => match self.waits.ledger.unproven(now, bill) {
                Some(unproven) => (Some(unproven), Reason::Unproven),
                None if self.waits_for_store(bill) => (limit, Reason::Store),
                None => (limit, Reason::Turn),
            },
        };
        Obstacle { limit, reason }
    }

    /// Why the bucket in which `bill` is charged to `limit` cannot pay within the horizon, even if
    /// no other request came first.
    pub(super) fn obstacle_in(&self, bill: &Bill, limit: LimitId, tier: Tier) -> Option<Reason> {
        let (now, cost, latest) = (self.now, bill.get(limit), self.now + self.waits.resource.spec().horizon);
        let is_spent = self.waits.ledger.adaptive(limit).spent_until(now).is_some();
        let why = |bucket: &Bucket, limit: &Limit| {
            let pays = |tier| bucket.earliest(limit, now, limit.start_cost(cost, tier)) <= latest;
            let in_window = |bucket: &Bucket, limit: &Limit| {
                bucket.level_until(limit, now, now) >= limit.start_cost(cost, 0).credit.min(limit.full())
            };
            match bucket.freeze() {
                Some(freeze) if freeze.until() > now => Some(Reason::Frozen),
                Some(freeze) if freeze.is_being_probed() => Some(Reason::Probe),
                Some(_) | None if is_spent => Some(Reason::QuotaSpent),
                Some(_) | None if pays(tier) => None,
                Some(_) | None if pays(0) => Some(Reason::Headroom),
                Some(_) | None if limit.is_paced() && in_window(bucket, limit) => Some(Reason::Pace),
                Some(_) | None if limit.is_quota() => Some(Reason::QuotaSpent),
                Some(_) | None if limit.is_until_settled() => Some(Reason::InFlight),
                Some(_) | None => Some(Reason::Stock),
            }
        };
        self.waits.ledger.read_each(now, &bill.only(limit), why).next()?
    }

    /// Whether requests of other clients go first that came later.
    fn is_passed(&self, permit: &Permit<R>) -> bool {
        let own = permit.waiting();
        if self.waits.resource.spec().fair_share.is_none() || own.at_key.is_some() {
            return false;
        }
        let passes = |other: &Waiting<R>| other.client != own.client && other.arrival > own.arrival;
        let front = self.waits.queues.class(own.class).order().front(MAX_COMPARED);
        let ahead = front.map(|(slot, _)| self.waits.permits.get(slot).waiting());
        ahead.take_while(|other| other.position.turn < own.position.turn).any(passes)
    }

    /// Whether a request could start if the store had confirmed more, or if answers arrived.
    fn waits_for_store(&self, bill: &Bill) -> bool {
        self.told.are_late() || !self.term.covers(self.waits.resource, bill, self.now)
    }

    /// The state of the bucket in which `bill` is charged to `limit`.
    pub(super) fn holder(&self, bill: &Bill, limit: LimitId, tier: Tier) -> Option<Holder> {
        let key = bill.key_charge(limit).map(|charge| charge.key.to_string());
        let (now, cost, adaptive) = (self.now, bill.get(limit), self.waits.ledger.adaptive(limit));
        let call_time = adaptive.call_time.mean();
        let until_reset = adaptive.spent_until(now).unwrap_or(now);
        let until = |time: Time| time.since(now).millis();
        let describe = |bucket: &Bucket, limit: &Limit| {
            let (headroom, for_others) = (limit.headroom(tier), bucket.held_for_others(limit, now));
            let pays = bucket.earliest(limit, now, limit.start_cost(cost, tier)).max(until_reset);
            let likely_end = call_time.and_then(|taken| bucket.likely_end(limit, now, taken));
            Holder {
                key: key.clone(),
                level: limit.rate().units(bucket.level(limit, now)),
                next_free_ms: until(bucket.opens(limit, now).max(until_reset)),
                held_back: (for_others > Credit::ZERO).then(|| limit.rate().units(for_others)),
                leaves: (headroom > Credit::ZERO).then(|| limit.rate().units(headroom)),
                pays_in_ms: (pays < Time::NEVER).then(|| until(pays)),
                frozen_ms: bucket.freeze().map(|freeze| freeze.until()).filter(|end| *end > now).map(until),
                likely_free_ms: likely_end.map(until),
            }
        };
        self.waits.ledger.read_each(now, &bill.only(limit), describe).next()
    }

    /// How long a request behind `position` others will probably wait for calls in flight to end.
    pub(super) fn likely_wait(&self, bill: &Bill, limit: LimitId, position: u64) -> Option<Span> {
        let (now, cost) = (self.now, bill.get(limit));
        let call_time = self.waits.ledger.adaptive(limit).call_time.mean()?;
        let wait = |bucket: &Bucket, limit: &Limit| {
            let first = bucket.likely_end(limit, now, call_time)?.since(now);
            let places = limit.full().div_ceil(limit.rate().credit(cost)).max(1);
            Some(first + Span::from_nanos(call_time.nanos().saturating_mul(position) / places))
        };
        self.waits.ledger.read_each(now, &bill.only(limit), wait).next()?
    }
}

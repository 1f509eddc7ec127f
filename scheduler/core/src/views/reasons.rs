//! Why a request does not start yet: the limit, the reason, and the state of the bucket.

use crate::arithmetic::Credit;
use crate::ids::{LimitId, Tier};
use crate::ledger::Offer;
use crate::limits::Bucket;
use crate::permits::Permit;
use crate::policy::{Bill, Limit};
use crate::queue::Waiting;
use crate::scheduler::wait_estimator::WaitEstimator;
use rampmeter_protocol::reason::{Holder, Reason};
use rampmeter_protocol::time::{Span, Time};

/// Requests at the front of a queue that are compared with one request, to find out whether other
/// clients go before it.
const MAX_COMPARED: usize = 64;

/// The cause of a request's delay.
pub(super) struct Obstacle {
    pub(super) limit: Option<LimitId>,
    pub(super) reason: Reason,
}

/// The cause that delays a waiting request. `expected` is its probable start.
pub(super) fn obstacle<R>(
    waits: &WaitEstimator<'_, R>,
    permit: &Permit<R>,
    position: u64,
    expected: Offer,
) -> Obstacle {
    let (now, bill, waiting) = (waits.now, &permit.bill, permit.waiting());
    let tier = waits.resource.tier(waiting.class);
    let at_key = waits.key_queue_of(waiting).map(|(limit, _)| limit);
    let alone = || waits.ledger.earliest(now, bill, tier).limited_by;
    let limit = expected.limited_by.or(at_key).or_else(alone);
    let in_bucket = limit.and_then(|limit| obstacle_in(waits, bill, limit, tier));
    let (limit, reason) = match in_bucket {
        Some(Reason::Stock | Reason::InFlight) | None if is_passed(waits, permit) => (limit, Reason::Share),
        Some(reason) => (limit, reason),
        None if position > 0 => (limit, Reason::Turn),
        None => match waits.ledger.unproven(now, bill).filter(|_| at_key.is_none()) {
            Some(unproven) => (Some(unproven), Reason::Unproven),
            None if waits.is_held_by_store(bill) => (limit, Reason::Store),
            None => (limit, Reason::Turn),
        },
    };
    Obstacle { limit, reason }
}

/// Why the bucket in which `bill` is charged to `limit` cannot pay within the horizon, even if
/// no other request came first.
pub(super) fn obstacle_in<R>(waits: &WaitEstimator<'_, R>, bill: &Bill, limit: LimitId, tier: Tier) -> Option<Reason> {
    let (now, cost, latest) = (waits.now, bill.get(limit), waits.now + waits.resource.spec().horizon);
    let is_spent = waits.ledger.adaptive(limit).spent_until(now).is_some();
    let why = |bucket: &Bucket, limit: &Limit| {
        let pays = |tier| bucket.earliest(limit, now, limit.start_cost(cost, tier)) <= latest;
        match bucket.freeze() {
            Some(freeze) if freeze.until() > now => Some(Reason::Frozen),
            Some(freeze) if freeze.is_being_probed() => Some(Reason::Probe),
            Some(_) | None if is_spent => Some(Reason::QuotaSpent),
            Some(_) | None if pays(tier) => None,
            Some(_) | None if pays(Tier::NO_HEADROOM) => Some(Reason::Headroom),
            Some(_) | None if limit.is_quota() => Some(Reason::QuotaSpent),
            Some(_) | None if limit.counts_calls_in_flight() => Some(Reason::InFlight),
            Some(_) | None => Some(Reason::Stock),
        }
    };
    waits.ledger.read_each(now, &bill.only(limit), why).next()?
}

/// Whether later requests of other clients go first.
fn is_passed<R>(waits: &WaitEstimator<'_, R>, permit: &Permit<R>) -> bool {
    let own = permit.waiting();
    if waits.resource.spec().fair_share.is_none() || own.at_key.is_some() {
        return false;
    }
    let passes = |other: &Waiting<R>| other.client != own.client && other.arrival > own.arrival;
    let front = waits.queues.class(own.class).order().front(MAX_COMPARED);
    let ahead = front.map(|(slot, _)| waits.permits.get(slot).waiting());
    ahead.take_while(|other| other.position.turn < own.position.turn).any(passes)
}

/// The state of the bucket in which `bill` is charged to `limit`.
pub(super) fn holder<R>(waits: &WaitEstimator<'_, R>, bill: &Bill, limit: LimitId, tier: Tier) -> Option<Holder> {
    let key = bill.key_charge(limit).map(|charge| charge.key.to_string());
    let (now, cost, adaptive) = (waits.now, bill.get(limit), waits.ledger.adaptive(limit));
    let call_time = adaptive.mean_call_time();
    let until_reset = adaptive.spent_until(now).unwrap_or(now);
    let until = |time: Time| time.since(now).millis();
    let describe = |bucket: &Bucket, limit: &Limit| {
        let headroom = limit.headroom(tier);
        let for_others = bucket.window_state(limit, now).held_for_others;
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
    waits.ledger.read_each(now, &bill.only(limit), describe).next()
}

/// How long a request behind `position` others will probably wait for calls in flight to end.
pub(super) fn likely_wait<R>(waits: &WaitEstimator<'_, R>, bill: &Bill, limit: LimitId, position: u64) -> Option<Span> {
    let (now, cost) = (waits.now, bill.get(limit));
    let call_time = waits.ledger.adaptive(limit).mean_call_time()?;
    let wait = |bucket: &Bucket, limit: &Limit| {
        let first = bucket.likely_end(limit, now, call_time)?.since(now);
        let places = limit.full().div_ceil(limit.rate().credit(cost)).max(1);
        Some(first + Span::from_nanos(call_time.nanos().saturating_mul(position) / places))
    };
    waits.ledger.read_each(now, &bill.only(limit), wait).next()?
}

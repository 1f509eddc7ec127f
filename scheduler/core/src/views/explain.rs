//! Explains why a request waits: the limit, the reason, and the state of the bucket.

use crate::collections::Slot;
use crate::ledger::Offer;
use crate::limits::Bucket;
use crate::permits::{Permit, State};
use crate::queue::{ClassQueue, Waiting};
use crate::scheduler::Scheduler;
use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::ids::{ClassId, LimitId, Tier};
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::{Bill, Limit};
use rampmeter_protocol::explain::{self, Explained, Explanation, Question};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::reason::{Holder, Reason};
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// The largest number of requests to list; people read no more.
const MAX_LISTED: usize = 10;

/// The most requests of a class that are scanned for a question about a client or a limit.
const MAX_SCANNED: usize = 1000;

impl<R: Clone> Scheduler<R> {
    /// Returns the limit that delays or refuses one more request of the default class, if any, with
    /// the reason and the state of its bucket.
    #[must_use]
    pub fn delay_of_next(&mut self, now: Time) -> Option<(LimitId, Reason, Option<Holder>)> {
        self.advance(now);
        let class = self.resource.default_class();
        let tier = self.resource.tier(class);
        let bill = self.resource.bill_in_pool(&Labels::new(), [].into_iter(), class, &[]).ok()?;
        let bill = self.likely(&bill, tier);
        let limit = match self.spent_quota(now, bill) {
            Some(Refusal::QuotaSpent { limit, .. }) => limit,
            Some(_) | None => {
                let behind = self.queues.backlog_through(&self.resource, class);
                self.ledger.paid_after(now, &behind, |_| Credit::ZERO, bill, tier).limited_by?
            }
        };
        let reason = obstacle_in(self, bill, limit, tier).unwrap_or(Reason::Turn);
        Some((limit, reason, holder(self, bill, limit, tier)))
    }

    /// Returns the requests ahead of a waiting one, the limit that holds it, and why.
    #[must_use]
    pub fn held_by(&mut self, now: Time, id: &PermitId) -> Option<(u64, Option<LimitId>, Reason)> {
        self.advance(now);
        let slot = self.permits.find(id)?;
        let permit = self.permits.get(slot);
        permit.as_waiting()?;
        let (position, offer) = self.outlook(slot);
        let (limit, reason) = obstacle(self, permit, position, offer);
        Some((position, limit, reason))
    }

    /// Explains why the request in question waits, or what holds the whole resource.
    ///
    /// # Errors
    /// [`Refusal::UnknownPermit`] for an unknown id.
    pub fn explain(&mut self, now: Time, question: &Question) -> Result<Explanation, Refusal> {
        let limits = self.limit_status(now);
        let find = |id: &PermitId| self.permits.find(id).ok_or(Refusal::UnknownPermit);
        let slot = question.id.as_ref().map(find).transpose()?;
        let request = slot.map(|slot| explain_one(self, slot));
        let (waiting, first) = match &request {
            Some(request) => (request.position, ahead_of(self, slot, request.position)),
            None => in_line(self, question)?,
        };
        let more = waiting - first.len() as u64;
        let (resource, epoch) = (self.resource.name().clone(), self.term.epoch());
        Ok(Explanation { resource, epoch, limits, request, waiting, first, more })
    }
}

/// Lists the first of the `waiting` requests ahead of the one in `about`: in its key queue, or else
/// in the class queues and then in key queues.
fn ahead_of<R>(core: &Scheduler<R>, about: Option<Slot>, waiting: u64) -> Vec<Explained> {
    let count = MAX_LISTED.min(usize::try_from(waiting).unwrap_or(usize::MAX));
    let own = about.and_then(|slot| core.permits.get(slot).as_waiting());
    let slots: Vec<Slot> = match own.and_then(|own| core.key_queue_of(own)) {
        Some((_, key_queue)) => key_queue.iter().take(count).collect(),
        None => front(core.queues.classes(), count).take(count).collect(),
    };
    slots.into_iter().map(|slot| explain_one(core, slot)).collect()
}

/// Lists the first `count` requests of each queue, and then those that wait for keys.
fn front(classes: &[ClassQueue], count: usize) -> impl Iterator<Item = Slot> {
    let in_turn = classes.iter().flat_map(move |queue| queue.order.front(count).map(|(slot, _)| slot));
    in_turn.chain(classes.iter().flat_map(move |queue| queue.waiting_for_keys().take(count)))
}

/// Counts the waiting requests that the question is about, and lists the first of them.
fn in_line<R>(core: &Scheduler<R>, question: &Question) -> Result<(u64, Vec<Explained>), Refusal> {
    let class = question.class.as_ref().map(|class| core.resource.class(class)).transpose()?;
    let classes = match class {
        Some(class) => std::slice::from_ref(core.queues.class(class)),
        None => core.queues.classes(),
    };
    if question.client.is_none() && question.limit.is_none() {
        let waiting = classes.iter().map(ClassQueue::waiting).sum::<usize>() as u64;
        let first = front(classes, MAX_LISTED).take(MAX_LISTED).map(|slot| explain_one(core, slot));
        return Ok((waiting, first.collect()));
    }
    let is_of_client = |slot: &Slot| {
        let waiting = core.permits.get(*slot).waiting();
        question.client.as_ref().is_none_or(|client| **client == *waiting.client)
    };
    let of_client = front(classes, MAX_SCANNED).filter(is_of_client).map(|slot| explain_one(core, slot));
    let is_held = |one: &Explained| question.limit.is_none() || question.limit == one.limited_by;
    let mut all: Vec<Explained> = of_client.filter(is_held).collect();
    let waiting = all.len() as u64;
    all.truncate(MAX_LISTED);
    Ok((waiting, all))
}

pub(super) fn first_of<R>(core: &Scheduler<R>, class: ClassId) -> Option<Explained> {
    let queue = core.queues.class(class);
    let first = queue.order.front(1).map(|(slot, _)| slot).next();
    first.or_else(|| queue.waiting_for_keys().next()).map(|slot| explain_one(core, slot))
}

fn explain_one<R>(core: &Scheduler<R>, slot: Slot) -> Explained {
    let permit = core.permits.get(slot);
    match &permit.state {
        State::Waiting(_) => explain_waiting(core, slot),
        State::Granted(granted) => {
            let eta_ms = granted.start.at.since(core.now).millis() - core.now.since(granted.start.at).millis();
            let limited_by = granted.limited_by;
            Explained { eta_ms, ..describe(core, permit, explain::State::Granted, granted.class, limited_by) }
        }
        State::Returned => describe(core, permit, explain::State::Returned, core.resource.default_class(), None),
    }
}

fn explain_waiting<R>(core: &Scheduler<R>, slot: Slot) -> Explained {
    let permit = core.permits.get(slot);
    let waiting = permit.waiting();
    let (position, offer) = core.outlook(slot);
    let (limit, reason) = obstacle(core, permit, position, offer);
    let is_named = core.resource.spec().fair_share.is_some() && !waiting.client.is_empty();
    let in_flight = limit.filter(|_| matches!(reason, Reason::InFlight | Reason::Headroom | Reason::Share));
    let likely = in_flight.and_then(|limit| likely_wait(core, &permit.bill, limit, position));
    let wait = offer.at.since(core.now);
    Explained {
        client: is_named.then(|| waiting.client.to_string()),
        labels: waiting.call.iter().flat_map(|call| call.labels()).collect(),
        gives_up_ms: waiting.deadline.map(|deadline| deadline.since(core.now).millis()),
        reason: Some(reason),
        position,
        waited_ms: core.now.since(waiting.arrival.at).millis(),
        eta_ms: likely.map_or(wait, |likely| likely.min(wait)).millis(),
        ..describe(core, permit, explain::State::Waiting, waiting.class, limit)
    }
}

fn describe<R>(
    core: &Scheduler<R>,
    permit: &Permit<R>,
    state: explain::State,
    class: ClassId,
    limited_by: Option<LimitId>,
) -> Explained {
    let name = |limit: LimitId| core.resource[limit].spec().name.clone();
    let tier = core.resource.tier(class);
    let bill = core.likely(&permit.bill, tier);
    Explained {
        id: permit.id.clone(),
        state,
        class: core.resource.classes()[class.index()].name.clone(),
        client: None,
        labels: BTreeMap::new(),
        takes: bill.amounts().map(|(limit, amount)| (name(limit), amount.units())).collect(),
        limited_by: limited_by.map(name),
        reason: None,
        held_by: limited_by.and_then(|limit| holder(core, bill, limit, tier)),
        position: 0,
        waited_ms: Span::ZERO.millis(),
        eta_ms: Span::ZERO.millis(),
        gives_up_ms: None,
    }
}

/// How many requests at the front of a queue are searched for clients that overtake a request.
const MAX_COMPARED: usize = 64;

/// Finds the cause that delays a waiting request. `expected` is its probable start.
fn obstacle<R>(core: &Scheduler<R>, permit: &Permit<R>, position: u64, expected: Offer) -> (Option<LimitId>, Reason) {
    let (now, waiting) = (core.now, permit.waiting());
    let tier = core.resource.tier(waiting.class);
    let bill = core.likely(&permit.bill, tier);
    let at_key = core.key_queue_of(waiting).map(|(limit, _)| limit);
    let alone = || core.ledger.earliest(now, bill, tier).limited_by;
    let limit = expected.limited_by.or(at_key).or_else(alone);
    let in_bucket = limit.and_then(|limit| obstacle_in(core, bill, limit, tier));
    match in_bucket {
        Some(Reason::Stock | Reason::InFlight) | None if is_passed(core, permit) => (limit, Reason::Share),
        Some(reason) => (limit, reason),
        None if position > 0 => (limit, Reason::Turn),
        None => match core.ledger.unproven(now, bill).filter(|_| at_key.is_none()) {
            Some(unproven) => (Some(unproven), Reason::Unproven),
            None if core.is_held_by_store(bill) => (limit, Reason::Store),
            None => (limit, Reason::Turn),
        },
    }
}

/// Returns why the bucket charged for `limit` could not pay within the horizon, other requests
/// aside.
fn obstacle_in<R>(core: &Scheduler<R>, bill: &Bill, limit: LimitId, tier: Tier) -> Option<Reason> {
    let (now, cost, latest) = (core.now, bill.get(limit), core.now + core.resource.spec().horizon);
    let is_spent = core.ledger.adaptive(limit).spent_until(now).is_some();
    let why = |bucket: &Bucket, limit: &Limit| {
        let pays = |tier| bucket.earliest(limit, now, limit.start_cost(cost, tier)) <= latest;
        match bucket.freeze() {
            Some(freeze) if freeze.until > now => Some(Reason::Frozen),
            Some(freeze) if freeze.probe.is_some() => Some(Reason::Probe),
            Some(_) | None if is_spent => Some(Reason::QuotaSpent),
            Some(_) | None if pays(tier) => None,
            Some(_) | None if pays(Tier::NO_HEADROOM) => Some(Reason::Headroom),
            Some(_) | None if limit.is_quota() => Some(Reason::QuotaSpent),
            Some(_) | None if limit.counts_calls_in_flight() => Some(Reason::InFlight),
            Some(_) | None => Some(Reason::Stock),
        }
    };
    core.ledger.read_each(now, &bill.only(limit), why).next()?
}

/// Whether later requests of other clients go first.
fn is_passed<R>(core: &Scheduler<R>, permit: &Permit<R>) -> bool {
    let own = permit.waiting();
    if core.resource.spec().fair_share.is_none() || own.at_key.is_some() {
        return false;
    }
    let passes = |other: &Waiting<R>| other.client != own.client && other.arrival > own.arrival;
    let front = core.queues.class(own.class).order.front(MAX_COMPARED);
    let ahead = front.map(|(slot, _)| core.permits.get(slot).waiting());
    ahead.take_while(|other| other.position.turn < own.position.turn).any(passes)
}

fn holder<R>(core: &Scheduler<R>, bill: &Bill, limit: LimitId, tier: Tier) -> Option<Holder> {
    let key = bill.key_charge(limit).map(|charge| charge.key.to_string());
    let (now, cost, adaptive) = (core.now, bill.get(limit), core.ledger.adaptive(limit));
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
            frozen_ms: bucket.freeze().map(|freeze| freeze.until).filter(|end| *end > now).map(until),
            likely_free_ms: likely_end.map(until),
        }
    };
    core.ledger.read_each(now, &bill.only(limit), describe).next()
}

/// Estimates how long a request behind `position` others waits for calls in flight to end.
fn likely_wait<R>(core: &Scheduler<R>, bill: &Bill, limit: LimitId, position: u64) -> Option<Span> {
    let (now, cost) = (core.now, bill.get(limit));
    let call_time = core.ledger.adaptive(limit).mean_call_time()?;
    let wait = |bucket: &Bucket, limit: &Limit| {
        let first = bucket.likely_end(limit, now, call_time)?.since(now);
        let places = limit.full().div_ceil(limit.rate().credit(cost)).max(1);
        Some(first + Span::from_nanos(call_time.nanos().saturating_mul(position) / places))
    };
    core.ledger.read_each(now, &bill.only(limit), wait).next()?
}

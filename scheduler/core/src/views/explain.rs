//! Answers to "why am I waiting?".

use super::reasons::{Obstacle, holder, likely_wait, obstacle};
use crate::collections::Slot;
use crate::ids::{ClassId, LimitId};
use crate::permits::{Permit, State};
use crate::queue::ClassQueue;
use crate::refusal::Refusal;
use crate::scheduler::wait_estimator::WaitEstimator;
use rampmeter_protocol::explain::{self, Explained, Explanation, Question};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::reason::Reason;
use rampmeter_protocol::status::LimitStatus;
use rampmeter_protocol::time::Span;

/// The largest number of requests to list; people read no more.
const MAX_LISTED: usize = 10;

/// The most requests of a class that are compared with a question about a client or a limit.
const MAX_SCANNED: usize = 1000;

/// Explains why the request of the question waits, or what holds the whole resource.
pub(super) fn explain<R>(
    waits: &WaitEstimator<'_, R>,
    limits: Vec<LimitStatus>,
    question: &Question,
) -> Result<Explanation, Refusal> {
    let find = |id: &PermitId| waits.permits.find(id).ok_or(Refusal::UnknownPermit);
    let slot = question.id.as_ref().map(find).transpose()?;
    let request = slot.map(|slot| explain_one(waits, slot));
    let (waiting, first) = match &request {
        Some(request) => (request.position, ahead_of(waits, slot, request.position)),
        None => in_line(waits, question)?,
    };
    let more = waiting - first.len() as u64;
    let (resource, epoch) = (waits.resource.name().clone(), waits.epoch());
    Ok(Explanation { resource, epoch, limits, request, waiting, first, more })
}

/// The first of the `waiting` requests ahead of the one in `about`: in its key queue, or in all class
/// queues and then in key queues.
fn ahead_of<R>(waits: &WaitEstimator<'_, R>, about: Option<Slot>, waiting: u64) -> Vec<Explained> {
    let count = MAX_LISTED.min(usize::try_from(waiting).unwrap_or(usize::MAX));
    let own = about.and_then(|slot| waits.permits.get(slot).as_waiting());
    let slots: Vec<Slot> = match own.and_then(|own| waits.key_queue_of(own)) {
        Some((_, key_queue)) => key_queue.iter().take(count).collect(),
        None => front(waits.queues.classes(), count).take(count).collect(),
    };
    slots.into_iter().map(|slot| explain_one(waits, slot)).collect()
}

/// The first `count` requests of each queue, and then those that wait for keys.
fn front(classes: &[ClassQueue], count: usize) -> impl Iterator<Item = Slot> {
    let in_turn = classes.iter().flat_map(move |queue| queue.order().front(count).map(|(slot, _)| slot));
    in_turn.chain(classes.iter().flat_map(move |queue| queue.waiting_for_keys().take(count)))
}

/// How many requests wait that the question is about, and the first of them.
fn in_line<R>(waits: &WaitEstimator<'_, R>, question: &Question) -> Result<(u64, Vec<Explained>), Refusal> {
    let class = question.class.as_ref().map(|class| waits.resource.class(class)).transpose()?;
    let classes = match class {
        Some(class) => std::slice::from_ref(waits.queues.class(class)),
        None => waits.queues.classes(),
    };
    if question.client.is_none() && question.limit.is_none() {
        let waiting = classes.iter().map(ClassQueue::waiting).sum::<usize>() as u64;
        let first = front(classes, MAX_LISTED).take(MAX_LISTED).map(|slot| explain_one(waits, slot));
        return Ok((waiting, first.collect()));
    }
    let is_of_client = |slot: &Slot| {
        let waiting = waits.permits.get(*slot).waiting();
        question.client.as_ref().is_none_or(|client| **client == *waiting.client)
    };
    let of_client = front(classes, MAX_SCANNED).filter(is_of_client).map(|slot| explain_one(waits, slot));
    let is_held = |one: &Explained| question.limit.is_none() || question.limit == one.limited_by;
    let mut all: Vec<Explained> = of_client.filter(is_held).collect();
    let waiting = all.len() as u64;
    all.truncate(MAX_LISTED);
    Ok((waiting, all))
}

/// The request of `class` that is served next.
pub(super) fn first_of<R>(waits: &WaitEstimator<'_, R>, class: ClassId) -> Option<Explained> {
    let queue = waits.queues.class(class);
    let first = queue.order().front(1).map(|(slot, _)| slot).next();
    first.or_else(|| queue.waiting_for_keys().next()).map(|slot| explain_one(waits, slot))
}

fn explain_one<R>(waits: &WaitEstimator<'_, R>, slot: Slot) -> Explained {
    let permit = waits.permits.get(slot);
    match &permit.state {
        State::Waiting(_) => explain_waiting(waits, slot),
        State::Granted(granted) => {
            let eta_ms = granted.start.at.since(waits.now).millis() - waits.now.since(granted.start.at).millis();
            let limited_by = granted.limited_by;
            Explained { eta_ms, ..describe(waits, permit, explain::State::Granted, granted.class, limited_by) }
        }
        State::Returned => describe(waits, permit, explain::State::Returned, waits.resource.default_class(), None),
    }
}

fn explain_waiting<R>(waits: &WaitEstimator<'_, R>, slot: Slot) -> Explained {
    let permit = waits.permits.get(slot);
    let waiting = permit.waiting();
    let (position, offer) = waits.outlook(slot);
    let Obstacle { limit, reason } = obstacle(waits, permit, position, offer);
    let is_named = waits.resource.spec().fair_share.is_some() && !waiting.client.is_empty();
    // Leases tell only when a place is free at the latest.
    let in_flight = limit.filter(|_| matches!(reason, Reason::InFlight | Reason::Headroom | Reason::Share));
    let likely = in_flight.and_then(|limit| likely_wait(waits, &permit.bill, limit, position));
    let wait = offer.at.since(waits.now);
    Explained {
        client: is_named.then(|| waiting.client.to_string()),
        reason: Some(reason),
        position,
        waited_ms: waits.now.since(waiting.arrival.at).millis(),
        eta_ms: likely.map_or(wait, |likely| likely.min(wait)).millis(),
        ..describe(waits, permit, explain::State::Waiting, waiting.class, limit)
    }
}

/// The description of any permit, and of the bucket that limits it.
fn describe<R>(
    waits: &WaitEstimator<'_, R>,
    permit: &Permit<R>,
    state: explain::State,
    class: ClassId,
    limited_by: Option<LimitId>,
) -> Explained {
    let name = |limit: LimitId| waits.resource[limit].spec().name.clone();
    let tier = waits.resource.tier(class);
    Explained {
        id: permit.id.clone(),
        state,
        class: waits.resource.classes()[class.index()].name.clone(),
        client: None,
        takes: permit.bill.amounts().map(|(limit, amount)| (name(limit), amount.units())).collect(),
        limited_by: limited_by.map(name),
        reason: None,
        held_by: limited_by.and_then(|limit| holder(waits, &permit.bill, limit, tier)),
        position: 0,
        waited_ms: Span::ZERO.millis(),
        eta_ms: Span::ZERO.millis(),
    }
}

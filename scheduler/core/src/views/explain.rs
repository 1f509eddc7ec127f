//! Answers to "why am I waiting?".

use super::reasons::{Obstacle, holder, likely_wait, obstacle};
use crate::collections::Slot;
use crate::ids::{ClassId, LimitId};
use crate::permits::{Permit, State};
use crate::refusal::Refusal;
use crate::scheduler::wait_estimator::WaitEstimator;
use rampmeter_protocol::explain::{self, Explained, Explanation, Question};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::reason::Reason;
use rampmeter_protocol::status::LimitStatus;
use rampmeter_protocol::time::Span;

/// The largest number of requests to list; people read no more.
const MAX_LISTED: usize = 10;

/// Explains why the request of the question waits, or what holds the whole resource.
pub(super) fn explain<R>(
    waits: &WaitEstimator<'_, R>,
    limits: Vec<LimitStatus>,
    question: &Question,
) -> Result<Explanation, Refusal> {
    let find = |id: &PermitId| waits.permits.find(id).ok_or(Refusal::UnknownPermit);
    let slot = question.id.as_ref().map(find).transpose()?;
    let request = slot.map(|slot| explain_one(waits, slot));
    let waiting = request.as_ref().map_or(waits.queues.waiting() as u64, |request| request.position);
    let first: Vec<Explained> = listed(waits, slot, waiting).into_iter().map(|slot| explain_one(waits, slot)).collect();
    let more = waiting - first.len() as u64;
    let (resource, epoch) = (waits.resource.name().clone(), waits.epoch());
    Ok(Explanation { resource, epoch, limits, request, waiting, first, more })
}

/// The first of the `waiting` requests ahead of the one in `about`, or of all that wait. They are in
/// its key queue, or in all class queues and then in key queues.
fn listed<R>(waits: &WaitEstimator<'_, R>, about: Option<Slot>, waiting: u64) -> Vec<Slot> {
    let count = MAX_LISTED.min(usize::try_from(waiting).unwrap_or(usize::MAX));
    let own = about.and_then(|slot| waits.permits.get(slot).as_waiting());
    if let Some((_, key_queue)) = own.and_then(|own| waits.key_queue_of(own)) {
        return key_queue.iter().take(count).collect();
    }
    let classes = waits.queues.classes();
    let in_turn = classes.iter().flat_map(|queue| queue.order().front(count).map(|(slot, _)| slot));
    in_turn.chain(classes.iter().flat_map(|queue| queue.waiting_for_keys())).take(count).collect()
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

//! Translates requests of the protocol into events, and commands into answers.

use crate::command::{Command, FreezeNotice};
use crate::event;
use crate::identity::Identity;
use crate::scheduler::Scheduler;
use rampmeter_policy::ids::{ClassId, LimitId};
use rampmeter_policy::observation::Observation;
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::{BucketName, Call, Resource};
use rampmeter_protocol::answer::{Answer, Granted, Queued, Refused};
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::left::Left;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::news::News;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::settle::{Fate, Report, Response, Settle};
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{NANOS_PER_MILLI, Span, Time};
use std::sync::Arc;

/// Additions to a grant.
#[derive(Debug, Default)]
pub struct Extras<'a> {
    /// The remaining amounts, if the client asked for them.
    pub left: Vec<Left<'a>>,
    /// The cost, if the scheduler computed it.
    pub cost: Cost<'a>,
}

/// Converts a request. `id` is its own id, or one that the driver drew for it; `user` is the NATS
/// user who asks, empty if unknown; `permitted` is the class in the request's subject, if any.
///
/// # Errors
/// The address and the refusal, if the resource does not know the class or cannot charge the cost,
/// or if the request names another class than its subject.
pub fn ask<R>(
    resource: &Resource,
    to: R,
    user: &str,
    id: PermitId,
    request: &PermitRequest<'_>,
    permitted: Option<&Name>,
) -> Result<event::Ask<R>, (R, Refusal)> {
    let class = class_of(resource, request.class.as_deref(), permitted);
    let of_class = *class.as_ref().unwrap_or(&resource.default_class());
    let bill = match &*request.any_of {
        [] => resource.bill_in_pool(&request.labels, request.cost.iter(), of_class, &request.not),
        _ => resource.bill_of_ways(&call(request), of_class),
    };
    let (bill, class) = match bill.and_then(|bill| Ok((bill, class?))) {
        Ok(found) => found,
        Err(refusal) => return Err((to, refusal)),
    };
    Ok(event::Ask {
        to,
        id,
        identity: Identity::of(user, request),
        bill,
        class,
        mode: request.mode,
        max_wait: request.max_wait_ms.map(Millis::span),
        age: request.age_ms.span(),
        progress: request.progress,
        client: resource.spec().fair_share.as_ref().and_then(|fair| request.labels.get(&fair.label)).map(Arc::from),
        counted_for: counted_for(resource, &request.labels),
        // Only a waiting request can be charged by other limits later.
        call: (request.mode == Mode::Wait).then(|| Box::new(call(request))),
    })
}

fn call(request: &PermitRequest<'_>) -> Call {
    let call = Call::new(&request.labels, &request.cost).not_by(request.not.clone());
    call.or(request.else_after_ms.span(), &request.any_of)
}

/// Returns the name under which the use of a call counts, if the resource names labels for it.
fn counted_for(resource: &Resource, labels: &Labels<'_>) -> Option<Arc<str>> {
    let by = &resource.spec().usage_by;
    let values: Vec<&str> = by.iter().map(|label| labels.get(label).unwrap_or_default()).collect();
    let has_any = values.iter().any(|value| !value.is_empty());
    (!by.is_empty()).then(|| if has_any { values.join(" · ").into() } else { "".into() })
}

/// Resolves the class of a request that names `stated`, on a subject that names `permitted`.
fn class_of(resource: &Resource, stated: Option<&str>, permitted: Option<&Name>) -> Result<ClassId, Refusal> {
    if let (Some(stated), Some(permitted)) = (stated, permitted)
        && *stated != **permitted
    {
        return Err(Refusal::OtherClass { permitted: permitted.clone() });
    }
    let named = permitted.map(|permitted| &**permitted).or(stated);
    named.map_or(Ok(resource.default_class()), |class| resource.class(class))
}

/// Converts a settle and what the upstream's response says.
#[must_use]
pub fn settle<R: Clone>(
    core: &Scheduler<R>,
    to: Option<R>,
    settle: &Settle<'_>,
    observation: Option<Observation>,
) -> event::Settle<R> {
    let resource = core.resource();
    let outcome = match &settle.fate {
        Fate::Unused => event::Outcome::Unused,
        Fate::Extended => event::Outcome::Extend,
        Fate::Used(Report { cost, .. }) => {
            let stated = cost.iter().map(|(unit, amount)| (unit.to_owned(), amount));
            // The worker's costs take precedence over the response's, whose units may be uncounted.
            let counts = |unit: &str| cost.get(unit).is_none() && resource.counts(unit);
            let observed = observation.iter().flat_map(|observation| &observation.spent);
            let observed = observed.filter(|(unit, _)| counts(unit)).cloned();
            event::Outcome::Used(stated.chain(observed).collect())
        }
    };
    let is_throttled = settle.response().is_some_and(Response::is_throttled);
    // A call that the resource cannot charge is not counted. A known permit has its own bill.
    let asked = settle.asked.as_ref().filter(|_| !core.knows(&settle.id));
    let call = asked.and_then(|asked| resource.bill(&asked.labels, asked.cost.iter()).ok()).map(Box::new);
    event::Settle { to, id: settle.id.clone(), outcome, observation, is_throttled, call }
}

/// Calls `send` with the address and the answer of a command, if any. A grant gets the extras.
pub fn answer<R>(
    resource: &Resource,
    now: Time,
    epoch: Epoch,
    command: Command<R>,
    Extras { left, cost }: Extras<'_>,
    send: impl FnOnce(R, &Answer<'_>),
) {
    let at_ms = Some(now.nanos() / NANOS_PER_MILLI);
    match command {
        Command::Grant(grant) => {
            let limited_by = limit_name(resource, grant.limited_by);
            let (id, delay_ms) = (Text::from(grant.id.as_str()), grant.delay.millis());
            let (valid_ms, lease_ms) = (Some(grant.validity.millis()), grant.lease.map(Span::millis));
            let bucket = |(limit, key): &'_ BucketName| (*limit, key.as_deref().map(|key| Text::from(key.to_owned())));
            let named = grant.charged.iter().map(bucket);
            let charged = named.map(|(limit, key)| (Text::from(&*resource[limit].spec().name), key)).collect();
            let accounts = &resource.spec().accounts;
            let account = grant.account.map(|account| Text::from(&*accounts[account.index()].name));
            let way = Some(grant.way).filter(|way| *way > 0);
            let granted = Granted {
                id,
                delay_ms,
                valid_ms,
                lease_ms,
                limited_by,
                account,
                way,
                charged,
                left,
                cost,
                at_ms,
                epoch,
            };
            send(grant.to, &Answer::Granted(granted));
        }
        Command::Queued { to, id, position, eta, limited_by } => {
            let limited_by = limit_name(resource, limited_by);
            let (id, eta_ms) = (Text::from(id.as_str()), eta.millis());
            send(to, &Answer::Queued(Queued { id, position, eta_ms, limited_by, at_ms, epoch }));
        }
        Command::Refuse { to, id, refusal } => {
            send(to, &refused(resource, epoch, id.as_ref(), &refusal));
        }
        Command::RefuseSettle { to: Some(to), id, refusal } => {
            send(to, &refused(resource, epoch, Some(&id), &refusal));
        }
        Command::RefuseSettle { to: None, .. } => {}
        // The driver publishes announcements with `news`, and answers no request with a note.
        Command::Announce(_) | Command::Note(_) => {}
        Command::Settled { to, id, extended } => send(to, &Answer::Settled { id: Text::from(id.as_str()), extended }),
    }
}

/// Converts an announcement.
#[must_use]
pub fn news(resource: &Resource, epoch: Epoch, freeze: &FreezeNotice) -> News {
    let bucket = |(limit, key): &BucketName| (resource[*limit].spec().name.clone(), key.as_deref().map(str::to_owned));
    let buckets: Vec<(Name, Option<String>)> = freeze.buckets.iter().map(bucket).collect();
    let limits = buckets.iter().map(|(limit, _)| limit.clone()).collect();
    News::Freeze { limits, buckets, for_ms: freeze.span.millis(), epoch: Some(epoch) }
}

/// Converts a refusal. The message begins with the name of the limit that refuses, if one does.
#[must_use]
pub fn refused<'a>(resource: &'a Resource, epoch: Epoch, id: Option<&'a PermitId>, why: &Refusal) -> Answer<'a> {
    let limited_by = limit_name(resource, why.limited_by());
    let message = match &limited_by {
        Some(limit) => format!("`{limit}`: {why}"),
        None => why.to_string(),
    };
    let (id, retry_after_ms) = (id.map(|id| Text::from(id.as_str())), why.retry_after().map(Span::millis));
    Answer::Refused(Refused { id, retry_after_ms, limited_by, epoch, ..Refused::new(why.code(), message) })
}

fn limit_name(resource: &Resource, limit: Option<LimitId>) -> Option<Text<'_>> {
    limit.map(|limit| Text::from(&*resource[limit].spec().name))
}

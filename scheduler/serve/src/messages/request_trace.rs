//! A request that is recorded as a span.

use rampmeter_policy::Resource;
use rampmeter_protocol::cost::{Cost, REQUESTS};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::reason::Reason;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::time::Time;
use rampmeter_protocol::trace_context::TraceContext;
use rampmeter_telemetry::{Kind, Span, SpanIds, Value};
use std::borrow::Cow;
use std::sync::OnceLock;

pub(crate) type Attributes = Vec<(Cow<'static, str>, Value)>;

/// A recorded request until it is answered. The core carries it with the address.
#[derive(Debug)]
pub struct RequestTrace {
    ids: SpanIds,
    state: Option<Box<str>>,
    start: Time,
    mode: Mode,
    class: Option<Name>,
    /// The expected cost by unit, in units that the resource counts.
    estimate: Vec<(String, f64)>,
    waiting: OnceLock<Waiting>,
}

/// What held a request when it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) position: u64,
    pub(crate) limit: Option<Name>,
    pub(crate) reason: Reason,
}

impl RequestTrace {
    /// Creates the trace of a request with these ids and this `tracestate`.
    pub(crate) fn new(
        start: Time,
        ids: SpanIds,
        state: Option<Box<str>>,
        resource: &Resource,
        request: &PermitRequest<'_>,
        permitted: Option<&Name>,
    ) -> Self {
        RequestTrace {
            ids,
            state,
            start,
            mode: request.mode,
            class: class_of(resource, permitted.map(|class| &**class).or(request.class.as_deref())),
            estimate: estimate(resource, &request.cost),
            waiting: OnceLock::new(),
        }
    }

    pub(crate) fn context(&self) -> TraceContext {
        self.ids.context
    }

    pub(crate) fn note_waiting(&self, waiting: Waiting) {
        self.waiting.set(waiting).ok();
    }

    /// Returns why the request had to wait, if it had to.
    pub(crate) fn reason(&self) -> Option<Reason> {
        self.waiting.get().map(|waiting| waiting.reason)
    }

    /// Returns the span of a request to `resource` that is answered now; the answer is still to be added.
    pub(crate) fn span(&self, resource: &Name, now: Time) -> Span {
        Span {
            context: self.ids.context,
            parent: self.ids.parent,
            state: self.state.clone(),
            name: format!("permit {resource}"),
            kind: Kind::Server,
            start: self.start,
            end: now,
            attributes: self.attributes(resource),
            links: Vec::new(),
            error: None,
        }
    }

    fn attributes(&self, resource: &Name) -> Attributes {
        let mode = match self.mode {
            Mode::Allow => "allow",
            Mode::Reserve => "reserve",
            Mode::Wait => "wait",
        };
        let mut attributes = vec![text("rampmeter.resource", resource), text("rampmeter.mode", mode)];
        attributes.extend(self.class.as_deref().map(|class| text("rampmeter.class", class)));
        if let Some(Waiting { position, limit, reason }) = self.waiting.get() {
            attributes.push((Cow::from("rampmeter.queue.position"), Value::Whole(*position as i64)));
            attributes.push(text("rampmeter.queue.reason", reason.as_str()));
            attributes.extend(limit.as_deref().map(|limit| text("rampmeter.queue.limit", limit)));
        }
        attributes.extend(amounts("rampmeter.cost.estimate", &self.estimate));
        attributes
    }
}

fn class_of(resource: &Resource, named: Option<&str>) -> Option<Name> {
    let class = named.map_or(Ok(resource.default_class()), |class| resource.class(class)).ok()?;
    Some(resource.classes()[class.index()].name.clone())
}

/// Returns the expected cost. A cost without units means one request.
fn estimate(resource: &Resource, cost: &Cost<'_>) -> Vec<(String, f64)> {
    match cost.is_empty() && resource.counts(REQUESTS) {
        true => vec![(REQUESTS.to_owned(), 1.0)],
        false => counted(resource, cost),
    }
}

/// Returns the amounts in units that the resource counts. Clients can send any unit.
pub(crate) fn counted(resource: &Resource, cost: &Cost<'_>) -> Vec<(String, f64)> {
    let counted = cost.iter().filter(|(unit, _)| resource.counts(unit));
    counted.map(|(unit, amount)| (unit.to_owned(), amount.units())).collect()
}

pub(crate) fn amounts(prefix: &str, amounts: &[(String, f64)]) -> Attributes {
    amounts.iter().map(|(unit, amount)| (Cow::from(format!("{prefix}.{unit}")), Value::Number(*amount))).collect()
}

pub(crate) fn text(key: &'static str, value: &str) -> (Cow<'static, str>, Value) {
    (Cow::from(key), Value::from(value))
}

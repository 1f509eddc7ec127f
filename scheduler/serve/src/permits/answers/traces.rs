//! Records the spans of a permit loop, for each traced request and its settle. Another task exports them.

use crate::messages::message_trace::ElementTrace;
use crate::messages::request_trace::{Attributes, RequestTrace, amounts, counted, text};
use rampmeter_policy::Resource;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::reason::Reason;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::{Fate, Report, Settle};
use rampmeter_protocol::time::{Span as Length, Time};
use rampmeter_protocol::trace_context::TraceContext;
use rampmeter_scheduler_core::command::Grant;
use rampmeter_telemetry::{Kind, Span, SpanIds, Spans, Value};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Bound on recorded permits without a settle. An older one is forgotten, and its settle has no link.
const MAX_GRANTED: usize = 16_384;

/// Records spans, if the process exports any.
#[derive(Debug, Default)]
pub(crate) struct Traces(Option<Box<Recorder>>);

#[derive(Debug)]
struct Recorder {
    spans: Spans,
    resource: Name,
    granted: GrantedTraces,
    rejection: Option<TraceContext>,
}

impl Traces {
    pub(crate) fn new(spans: Option<Spans>, resource: &Name) -> Self {
        let recorder = |spans| {
            let (granted, resource) = (GrantedTraces::default(), resource.clone());
            Box::new(Recorder { spans, resource, granted, rejection: None })
        };
        Traces(spans.map(recorder))
    }

    /// Begins the trace of a request that came at `now`, if it is recorded.
    pub(crate) fn begin(
        &self,
        now: Time,
        resource: &Resource,
        request: &PermitRequest<'_>,
        permitted: Option<&Name>,
        trace: ElementTrace<'_>,
    ) -> Option<Arc<RequestTrace>> {
        let ids = self.0.as_ref()?.spans.begin(trace.context())?;
        Some(Arc::new(RequestTrace::new(now, ids, trace.tracestate(), resource, request, permitted)))
    }

    pub(crate) fn granted<R>(&mut self, now: Time, trace: &Arc<RequestTrace>, grant: &Grant<R>, limit: Option<Name>) {
        let Some(recorder) = &mut self.0 else { return };
        let was_paused = trace.reason().is_some_and(is_upstream_pause);
        let links = recorder.rejection.filter(|_| was_paused).into_iter().collect();
        if !grant.repeated {
            recorder.granted.note(grant.id.clone(), trace.context());
        }
        let (wait, delay) = ((grant.waited + grant.delay).secs(), grant.delay.secs());
        let answer = vec![
            text("rampmeter.result", "acquired"),
            (Cow::from("rampmeter.wait"), Value::Number(wait)),
            (Cow::from("rampmeter.delay"), Value::Number(delay)),
        ];
        let limit = limit.map(|limit| text("rampmeter.limit", &limit));
        recorder.answered(now, trace, answer.into_iter().chain(limit).collect(), links, None);
    }

    pub(crate) fn refused(&mut self, now: Time, trace: &Arc<RequestTrace>, code: Code, limit: Option<Name>) {
        let Some(recorder) = &self.0 else { return };
        let answer = vec![text("rampmeter.result", "refused"), text("error.type", code.as_str())];
        let limit = limit.map(|limit| text("rampmeter.limit", &limit));
        recorder.answered(now, trace, answer.into_iter().chain(limit).collect(), Vec::new(), Some(code.as_str()));
    }

    /// Returns the trace of a settle, under the span of its message or else of its permit, if either is recorded.
    pub(crate) fn of_settle(&self, settle: &Settle<'_>, trace: ElementTrace<'_>) -> Option<SettleTrace> {
        let recorder = self.0.as_ref()?;
        let permit = recorder.granted.get(&settle.id);
        let parent = trace.context().filter(TraceContext::is_sampled).or(permit)?;
        Some(SettleTrace { ids: recorder.spans.begin(Some(parent))?, permit })
    }

    pub(crate) fn settled(&mut self, now: Time, resource: &Resource, trace: &SettleTrace, settle: &Settle<'_>) {
        let Some(recorder) = &mut self.0 else { return };
        let result = match &settle.fate {
            // The call goes on.
            Fate::Extended => return,
            Fate::Unused => "unused",
            Fate::Used(_) => "used",
        };
        recorder.granted.forget(&settle.id);
        let status = settle.response().map(|response| response.status);
        let is_throttled = settle.response().is_some_and(|response| response.is_throttled());
        if is_throttled {
            recorder.rejection = Some(trace.ids.context);
        }
        let (mut elapsed, mut actual) = (None, Vec::new());
        if let Fate::Used(Report { cost, elapsed_ms, .. }) = &settle.fate {
            (elapsed, actual) = (elapsed_ms.map(Millis::span).map(Length::secs), counted(resource, cost));
        }
        let (SettleTrace { ids, permit }, name) = (*trace, recorder.resource.clone());
        recorder.spans.record(move || {
            let mut attributes = vec![text("rampmeter.resource", &name), text("rampmeter.result", result)];
            let status = status.map(|status| (Cow::from("http.response.status_code"), Value::Whole(status.into())));
            attributes.extend(status);
            attributes.extend(is_throttled.then(|| text("error.type", "429")));
            attributes.extend(elapsed.map(|secs| (Cow::from("rampmeter.call.duration"), Value::Number(secs))));
            attributes.extend(amounts("rampmeter.cost.actual", &actual));
            Span {
                context: ids.context,
                parent: ids.parent,
                state: None,
                name: format!("settle {name}"),
                kind: Kind::Consumer,
                start: now,
                end: now,
                attributes,
                links: permit.into_iter().collect(),
                error: is_throttled.then(|| "429".to_owned()),
            }
        });
    }
}

impl Recorder {
    fn answered(
        &self,
        now: Time,
        trace: &Arc<RequestTrace>,
        answer: Attributes,
        links: Vec<TraceContext>,
        error: Option<&'static str>,
    ) {
        let (trace, resource) = (Arc::clone(trace), self.resource.clone());
        self.spans.record(move || {
            let span = trace.span(&resource, now);
            let attributes = span.attributes.into_iter().chain(answer).collect();
            Span { attributes, links, error: error.map(str::to_owned), ..span }
        });
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SettleTrace {
    ids: SpanIds,
    permit: Option<TraceContext>,
}

impl SettleTrace {
    pub(crate) fn context(&self) -> TraceContext {
        self.ids.context
    }
}

/// The spans of recorded permits, by id. An id is a secret, which no span contains.
#[derive(Debug, Default)]
struct GrantedTraces {
    by_id: HashMap<PermitId, TraceContext>,
    /// All noted ids, the oldest first, including those of settled permits.
    order: VecDeque<PermitId>,
}

impl GrantedTraces {
    fn note(&mut self, id: PermitId, context: TraceContext) {
        if self.order.len() == MAX_GRANTED
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_id.remove(&oldest);
        }
        self.order.push_back(id.clone());
        self.by_id.insert(id, context);
    }

    fn get(&self, id: &PermitId) -> Option<TraceContext> {
        self.by_id.get(id).copied()
    }

    fn forget(&mut self, id: &PermitId) {
        self.by_id.remove(id);
    }
}

/// Returns whether a request with this reason waits because the upstream asked for a pause.
fn is_upstream_pause(reason: Reason) -> bool {
    matches!(reason, Reason::Frozen | Reason::Probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_granted_permits_are_remembered() {
        let mut granted = GrantedTraces::default();
        let context = TraceContext::new([1; 16], [2; 8], true).unwrap();
        for number in 0..=MAX_GRANTED as u128 {
            granted.note(PermitId::secret(number), context);
        }
        assert_eq!(granted.get(&PermitId::secret(0)), None);
        assert_eq!(granted.get(&PermitId::secret(1)), Some(context));
        granted.forget(&PermitId::secret(1));
        assert_eq!((granted.get(&PermitId::secret(1)), granted.by_id.len()), (None, MAX_GRANTED - 1));
    }
}

//! The span of a request that the proxy holds and forwards.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rampmeter_protocol::time::{Span as Length, Time};
use rampmeter_protocol::trace_context::{TRACEPARENT, TRACESTATE, TraceContext, trace_state};
use rampmeter_telemetry::{Kind, Span, SpanIds, Spans, Value};
use std::borrow::Cow;
use std::sync::Arc;

const CONTEXT: HeaderName = HeaderName::from_static(TRACEPARENT);
/// Methods named in spans (RFC 9110, RFC 5789); clients can invent others.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];

#[derive(Debug)]
pub(crate) struct RequestTrace {
    /// The span in which the permit is requested: this proxy's, or the client's.
    context: Option<TraceContext>,
    recorded: Option<Box<Recorded>>,
}

#[derive(Debug)]
struct Recorded {
    spans: Spans,
    ids: SpanIds,
    state: Option<Box<str>>,
    start: Time,
    method: &'static str,
    resource: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) wait: Length,
    pub(crate) sendings: u32,
}

impl RequestTrace {
    /// Begins the trace of a request. If it is recorded, `headers` show the upstream this proxy's span.
    pub(crate) fn begin(spans: Option<&Spans>, method: &Method, headers: &mut HeaderMap, resource: &str) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let (parent, state) = (text(TRACEPARENT).and_then(TraceContext::parse), text(TRACESTATE).and_then(trace_state));
        let Some((spans, ids)) = spans.and_then(|spans| Some((spans, spans.begin(parent)?))) else {
            return RequestTrace { context: parent, recorded: None };
        };
        let recorded = Recorded {
            ids,
            state: state.map(Box::from),
            start: spans.now(),
            method: METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("_OTHER"),
            resource: resource.to_owned(),
            spans: spans.clone(),
        };
        if let Ok(value) = HeaderValue::try_from(ids.context.to_string()) {
            headers.insert(CONTEXT, value);
        }
        RequestTrace { context: Some(ids.context), recorded: Some(Box::new(recorded)) }
    }

    pub(crate) fn context(&self) -> Option<TraceContext> {
        self.context
    }

    pub(crate) fn for_log(&self) -> tracing::Span {
        match &self.recorded {
            Some(recorded) => tracing::error_span!("traced", trace_id = %recorded.ids.context.trace()),
            None => tracing::Span::none(),
        }
    }

    /// Ends the span with the response's status. `outcome` is how the request was held, or why it was not forwarded.
    pub(crate) fn answered(&mut self, route: Arc<str>, status: u16, outcome: Result<Held, &'static str>) {
        let Some(recorded) = self.recorded.take() else { return };
        let end = recorded.spans.now();
        recorded.spans.clone().record(move || recorded.span(end, &route, status, outcome));
    }
}

impl Recorded {
    fn span(&self, end: Time, route: &str, status: u16, outcome: Result<Held, &'static str>) -> Span {
        let text = |key: &'static str, value: &str| (Cow::from(key), Value::from(value));
        let mut attributes = vec![
            text("http.request.method", self.method),
            text("http.route", route),
            (Cow::from("http.response.status_code"), Value::Whole(status.into())),
            text("rampmeter.resource", &self.resource),
        ];
        match outcome {
            Err(code) => attributes.push(text("error.type", code)),
            Ok(Held { wait, sendings }) => {
                attributes.push((Cow::from("rampmeter.wait"), Value::Number(wait.secs())));
                attributes.push((Cow::from("http.request.resend_count"), Value::Whole(i64::from(sendings) - 1)));
            }
        }
        Span {
            context: self.ids.context,
            parent: self.ids.parent,
            state: self.state.clone(),
            name: format!("{} {route}", self.method),
            kind: Kind::Server,
            start: self.start,
            end,
            attributes,
            links: Vec::new(),
            error: outcome.err().map(str::to_owned),
        }
    }
}

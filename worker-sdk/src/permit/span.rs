//! The span of a request for a permit, until its call begins.
//!
//! Without the feature `otel` there is no span, and only the caller's parent is passed on.

use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::trace_context::TraceContext;
use rampmeter_worker_session::{Denial, Grant};

#[derive(Debug, Default)]
pub(crate) struct PermitSpan {
    parent: Option<TraceContext>,
    #[cfg(feature = "otel")]
    span: Option<opentelemetry::global::BoxedSpan>,
}

impl PermitSpan {
    pub(crate) fn parent(&self) -> Option<TraceContext> {
        self.parent
    }
}

#[cfg(not(feature = "otel"))]
impl PermitSpan {
    pub(crate) fn begin(_: &Name, request: &mut PermitRequest<'_>) -> Self {
        PermitSpan { parent: request.trace }
    }

    pub(crate) fn note_granted(&mut self, _: &Grant) {}

    pub(crate) fn note_denied(&mut self, _: &Denial) {}

    pub(crate) fn note_cancelled(&mut self) {}
}

#[cfg(feature = "otel")]
mod recorded {
    use super::{Denial, Grant, Name, PermitRequest, PermitSpan, TraceContext};
    use opentelemetry::trace::{
        Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
    };
    use opentelemetry::{Context, KeyValue, global};
    use rampmeter_protocol::request::Mode;
    use std::borrow::Cow;

    const SCOPE: &str = "rampmeter-worker-sdk";

    impl PermitSpan {
        /// Begins the span of `request`, inside the one in it or else the current one, and stores it there.
        pub(crate) fn begin(resource: &Name, request: &mut PermitRequest<'_>) -> Self {
            let parent = request.trace;
            let around = parent.map_or_else(Context::current, remote);
            let tracer = global::tracer(SCOPE);
            let builder = tracer.span_builder(format!("permit {resource}")).with_kind(SpanKind::Client);
            let span = tracer.build_with_context(builder.with_attributes(asked(resource, request)), &around);
            request.trace = context(span.span_context());
            PermitSpan { parent, span: Some(span) }
        }

        /// Notes the grant; the span goes on until the call begins.
        pub(crate) fn note_granted(&mut self, grant: &Grant) {
            let wait = grant.start.since(grant.since).secs();
            let limit = grant.answer.limited_by.as_deref().map(|limit| text("rampmeter.limit", limit));
            let result = if grant.is_local() { "local" } else { "acquired" };
            self.note(
                [text("rampmeter.result", result), KeyValue::new("rampmeter.wait", wait)].into_iter().chain(limit),
            );
        }

        pub(crate) fn note_denied(&mut self, denial: &Denial) {
            let (code, limit) = match denial {
                Denial::Refused(refused) => (refused.code.as_str(), refused.limited_by.as_deref()),
                Denial::TimedOut { limited_by, .. } => ("timed_out", limited_by.as_deref()),
                Denial::Unreachable { .. } => ("unreachable", None),
                Denial::TooManyAsks { .. } => ("too_many_asks", None),
                Denial::Closed => ("closed", None),
            };
            let limit = limit.map(|limit| text("rampmeter.limit", limit));
            self.note([text("rampmeter.result", "refused"), text("error.type", code)].into_iter().chain(limit));
            if let Some(span) = &mut self.span {
                span.set_status(Status::error(code.to_owned()));
            }
        }

        pub(crate) fn note_cancelled(&mut self) {
            self.note([text("rampmeter.result", "cancelled")]);
        }

        fn note(&mut self, attributes: impl IntoIterator<Item = KeyValue>) {
            if let Some(span) = &mut self.span {
                span.set_attributes(attributes);
            }
        }
    }

    impl Drop for PermitSpan {
        fn drop(&mut self) {
            if let Some(span) = &mut self.span {
                span.end();
            }
        }
    }

    fn asked(resource: &Name, request: &PermitRequest<'_>) -> Vec<KeyValue> {
        let mode = match request.mode {
            Mode::Allow => "allow",
            Mode::Reserve => "reserve",
            Mode::Wait => "wait",
        };
        let class = request.class.as_deref().map(|class| text("rampmeter.class", class));
        let amounts = request.cost.iter().map(|(unit, amount)| {
            let name: Cow<'static, str> = format!("rampmeter.cost.estimate.{unit}").into();
            KeyValue::new(name, amount.units())
        });
        let fixed = [text("rampmeter.resource", resource), text("rampmeter.mode", mode)];
        fixed.into_iter().chain(class).chain(amounts).collect()
    }

    fn text(key: &'static str, value: &str) -> KeyValue {
        KeyValue::new(key, value.to_owned())
    }

    fn remote(parent: TraceContext) -> Context {
        let flags = if parent.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
        let (trace, span) = (TraceId::from_bytes(parent.trace_id()), SpanId::from_bytes(parent.span_id()));
        let context = SpanContext::new(trace, span, flags, true, TraceState::default());
        Context::current().with_remote_span_context(context)
    }

    fn context(span: &SpanContext) -> Option<TraceContext> {
        TraceContext::new(span.trace_id().to_bytes(), span.span_id().to_bytes(), span.is_sampled())
    }
}

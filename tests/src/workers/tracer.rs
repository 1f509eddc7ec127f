//! A tracer of OpenTelemetry for workers in this process.
//!
//! It records what is part of a sampled trace, and nothing else: workers of other tests in the same
//! process send no contexts.

use opentelemetry::trace::{Span, SpanBuilder, SpanContext, SpanId, Status, TraceContextExt, TraceId, TraceState};
use opentelemetry::{Context, InstrumentationScope, KeyValue, global, trace};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

/// The tracer of this process: the library has one for all.
static TRACER: OnceLock<Tracer> = OnceLock::new();

/// Keeps the spans that have ended.
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    /// The lock is held to add a span, or to look at all.
    ended: Arc<Mutex<Vec<Ended>>>,
    ids: Arc<AtomicU64>,
}

/// A span that has ended. Ids are hexadecimal.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The id of the trace.
    pub trace: String,
    /// The id of the span.
    pub id: String,
    /// The id of the span that it is a part of.
    pub parent: String,
    /// The name.
    pub name: String,
    /// What is known of it, as text.
    pub attributes: BTreeMap<String, String>,
}

/// A span that may be recorded.
#[derive(Debug)]
pub struct Running {
    tracer: Tracer,
    context: SpanContext,
    ended: Option<Ended>,
}

impl Tracer {
    /// The tracer that workers of this process use.
    pub fn of_process() -> Self {
        let install = || {
            let tracer = Tracer::default();
            global::set_tracer_provider(tracer.clone());
            tracer
        };
        TRACER.get_or_init(install).clone()
    }

    /// The spans of this trace that have ended.
    pub fn ended(&self, trace: &str) -> Vec<Ended> {
        self.ended.lock().unwrap().iter().filter(|span| span.trace == trace).cloned().collect()
    }
}

/// The context of work in this span of another process, whose ids are hexadecimal.
pub fn remote(trace: &str, span: &str) -> Context {
    let (trace, span) = (TraceId::from_hex(trace).unwrap(), SpanId::from_hex(span).unwrap());
    let context = SpanContext::new(trace, span, trace::TraceFlags::SAMPLED, true, TraceState::default());
    Context::new().with_remote_span_context(context)
}

impl trace::TracerProvider for Tracer {
    type Tracer = Tracer;

    fn tracer_with_scope(&self, _: InstrumentationScope) -> Tracer {
        self.clone()
    }
}

impl trace::Tracer for Tracer {
    type Span = Running;

    fn build_with_context(&self, builder: SpanBuilder, around: &Context) -> Running {
        let parent = around.span().span_context().clone();
        if !parent.is_sampled() {
            return Running { tracer: self.clone(), context: SpanContext::empty_context(), ended: None };
        }
        let id = SpanId::from_bytes((self.ids.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes());
        let context = SpanContext::new(parent.trace_id(), id, parent.trace_flags(), false, TraceState::default());
        let attributes = builder.attributes.unwrap_or_default().into_iter();
        let ended = Ended {
            trace: parent.trace_id().to_string(),
            id: id.to_string(),
            parent: parent.span_id().to_string(),
            name: builder.name.into_owned(),
            attributes: attributes.map(|pair| (pair.key.to_string(), pair.value.to_string())).collect(),
        };
        Running { tracer: self.clone(), context, ended: Some(ended) }
    }
}

impl Span for Running {
    fn add_event_with_timestamp<T: Into<Cow<'static, str>>>(&mut self, _: T, _: SystemTime, _: Vec<KeyValue>) {}

    fn span_context(&self) -> &SpanContext {
        &self.context
    }

    fn is_recording(&self) -> bool {
        self.ended.is_some()
    }

    fn set_attribute(&mut self, pair: KeyValue) {
        if let Some(ended) = &mut self.ended {
            ended.attributes.insert(pair.key.to_string(), pair.value.to_string());
        }
    }

    fn set_status(&mut self, _: Status) {}

    fn update_name<T: Into<Cow<'static, str>>>(&mut self, _: T) {}

    fn add_link(&mut self, _: SpanContext, _: Vec<KeyValue>) {}

    fn end_with_timestamp(&mut self, _: SystemTime) {
        self.tracer.ended.lock().unwrap().extend(self.ended.take());
    }
}

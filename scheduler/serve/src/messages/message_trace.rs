//! The trace contexts in the headers of a message.

use async_nats::HeaderMap;
use axum::http;
use rampmeter_protocol::trace_context::{TRACEPARENT, TRACESTATE, TraceContext, TraceContexts, trace_state};

/// The trace context of one element of a message, if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementTrace<'a> {
    pub(crate) message: Option<&'a MessageTrace>,
    pub(crate) index: usize,
}

impl ElementTrace<'_> {
    pub(crate) fn context(self) -> Option<TraceContext> {
        self.message?.contexts.at(self.index)
    }

    pub(crate) fn tracestate(self) -> Option<Box<str>> {
        self.message?.state.clone()
    }
}

/// The trace contexts of one message, without invalid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageTrace {
    contexts: TraceContexts,
    state: Option<Box<str>>,
}

impl MessageTrace {
    /// Reads the headers of a NATS message. A `tracestate` counts only if there is exactly one context.
    #[must_use]
    pub fn of(headers: Option<&HeaderMap>) -> Option<Box<Self>> {
        let headers = headers?;
        let contexts = TraceContexts::of(headers.get_all(TRACEPARENT).map(|value| value.as_str()));
        let is_one = headers.get_all(TRACEPARENT).count() == 1;
        Self::with(contexts, headers.get(TRACESTATE).filter(|_| is_one).map(|value| value.as_str()))
    }

    /// Reads the headers of an HTTP request, which has one context for all elements.
    #[must_use]
    pub fn of_http(headers: &http::HeaderMap) -> Option<Box<Self>> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Self::with(TraceContexts::of(text(TRACEPARENT)), text(TRACESTATE))
    }

    fn with(contexts: TraceContexts, state: Option<&str>) -> Option<Box<Self>> {
        let state = state.and_then(trace_state).map(Box::from);
        contexts.has_any().then(|| Box::new(MessageTrace { contexts, state }))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self) + self.contexts.bytes() + self.state.as_ref().map_or(0, |state| state.len())
    }

    /// Returns the headers that pass the contexts on over NATS.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in self.contexts.values() {
            headers.append(TRACEPARENT, value);
        }
        if let Some(state) = &self.state {
            headers.insert(TRACESTATE, &**state);
        }
        headers
    }
}

//! Hands spans to the exporter.

use crate::sampler::Sampler;
use crate::span::Span;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Time;
use rampmeter_protocol::trace_context::TraceContext;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Capacity for spans that wait for the exporter: a second of its work, in a few megabytes.
pub(crate) const QUEUE: usize = 8192;

/// Spans of this process that reached no collector.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns how many spans were lost because the collector was away or slow, or refused them.
#[must_use]
pub fn lost_spans() -> u64 {
    LOST.load(Ordering::Relaxed)
}

pub(crate) fn count_lost(spans: usize) {
    LOST.fetch_add(spans as u64, Ordering::Relaxed);
}

pub(crate) type Unbuilt = Box<dyn FnOnce() -> Span + Send>;

/// Decides which spans are recorded, and queues them. Cheap to clone.
#[derive(Clone)]
pub struct Spans {
    sampler: Sampler,
    queue: mpsc::Sender<Unbuilt>,
    clock: Clock,
}

/// The ids of a recorded span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanIds {
    /// The context of the span itself.
    pub context: TraceContext,
    /// The id of its parent.
    pub parent: Option<[u8; 8]>,
}

impl Spans {
    pub(crate) fn new(sample: f64, queue: mpsc::Sender<Unbuilt>, clock: Clock) -> Self {
        Spans { sampler: Sampler::new(sample), queue, clock }
    }

    /// Returns the time on the exporter's clock, for the beginnings and ends of spans.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the ids of a new span if it is to be recorded, by decision of the request's sender or else by chance.
    #[must_use]
    pub fn begin(&self, parent: Option<TraceContext>) -> Option<SpanIds> {
        if !self.sampler.records(parent, rand::random) {
            return None;
        }
        let trace_id = parent.map_or_else(rand::random, |parent| parent.trace_id());
        // Ids by chance are not zero, unless once in 2^64 times: such a span is not recorded.
        let context = TraceContext::new(trace_id, rand::random(), true)?;
        Some(SpanIds { context, parent: parent.map(|parent| parent.span_id()) })
    }

    /// Queues a span, which `build` creates in another task. Never waits: without room, the span is lost and counted.
    pub fn record(&self, build: impl FnOnce() -> Span + Send + 'static) {
        if self.queue.try_send(Box::new(build)).is_err() {
            count_lost(1);
        }
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("sampler", &self.sampler).finish_non_exhaustive()
    }
}

//! Exports spans to an OpenTelemetry collector: OTLP over HTTP, as binary protobuf.
//!
//! [`Spans`] accepts a span from any thread at the cost of an allocation, and never waits. An [`Exporter`] builds
//! and sends them in a task of its own. If the collector is away or slow, spans are lost and
//! [counted](lost_spans), and nothing else happens.
//!
//! The crate knows nothing of permits. `otlp` has the part of the protocol for spans, [`span`] their content.

mod collector;
mod exporter;
pub mod headers;
mod otlp;
mod sampler;
pub mod span;
mod spans;

pub use exporter::{Exporter, Settings, StartError};
pub use span::{Kind, Span, Value};
pub use spans::{SpanIds, Spans, lost_spans};

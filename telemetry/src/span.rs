//! The content of a span.

use rampmeter_protocol::time::Time;
use rampmeter_protocol::trace_context::TraceContext;
use std::borrow::Cow;

/// A span that has ended. Its few attributes are bounded where it is made, and have no values chosen by clients unless
/// the configuration knows them.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The context of the span itself.
    pub context: TraceContext,
    /// The id of its parent, unless it is the first of its trace.
    pub parent: Option<[u8; 8]>,
    /// The `tracestate` of the context, as received.
    pub state: Option<Box<str>>,
    /// The name of an operation, of which there are few; never of one request.
    pub name: String,
    /// Its role in the exchange with its peer.
    pub kind: Kind,
    /// When it began, on the exporter's clock.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Its attributes.
    pub attributes: Vec<(Cow<'static, str>, Value)>,
    /// Related spans, beside its parent.
    pub links: Vec<TraceContext>,
    /// Why it failed, if it did, as one of few codes.
    pub error: Option<String>,
}

/// The role of a span in the exchange with its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It answers a request that another span waits for.
    Server,
    /// It waits for an answer.
    Client,
    /// It receives a message that no span waits for.
    Consumer,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// Any number.
    Number(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

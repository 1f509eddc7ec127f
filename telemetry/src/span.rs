//! What a span tells.

use rampmeter_protocol::time::Time;
use rampmeter_protocol::trace_context::TraceContext;
use std::borrow::Cow;

/// A span that has ended.
///
/// Its attributes are few, and each is bounded where the span is made. Values that clients choose
/// do not belong here unless the configuration knows them.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The span itself.
    pub context: TraceContext,
    /// The span that it is a part of, if it is not the first of its trace.
    pub parent: Option<[u8; 8]>,
    /// What tracing systems have added to the context, as it came.
    pub state: Option<Box<str>>,
    /// The name of an operation, never of one request: there are few names.
    pub name: String,
    /// Its part in the exchange with its peer.
    pub kind: Kind,
    /// When it began, on the clock of the exporter.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// What is known of it.
    pub attributes: Vec<(Cow<'static, str>, Value)>,
    /// Related spans, beside its parent.
    pub links: Vec<TraceContext>,
    /// Why it failed, if it did: one of few codes.
    pub error: Option<String>,
}

/// The part of a span in the exchange with its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It answers a request that another span waits for.
    Server,
    /// It waits for an answer.
    Client,
    /// It takes a message that no span waits for.
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

//! The part of OTLP for spans, with the field numbers of opentelemetry-proto 1.x.
//!
//! These few messages are written here because the crates that have them bring a second version of `rand`
//! and a batch processor that does not count what it loses.

use crate::span::{Kind, Span, Value};
use prost::Message;
use rampmeter_protocol::trace_context::TraceContext;
use rampmeter_protocol::wall_clock::WallClockOrigin;

const SPAN_SERVER: i32 = 2;
const SPAN_CLIENT: i32 = 3;
const SPAN_CONSUMER: i32 = 5;
const STATUS_ERROR: i32 = 2;
/// The flag of a context whose span is recorded. The flags leave open whether its parent is in another process.
const FLAGS: u32 = 1;

/// `ExportTraceServiceRequest`, of one process.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "13")]
    links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Link {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(fixed32, tag = "6")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "AttributeValue", tags = "1, 3, 4")]
    value: Option<AttributeValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AttributeValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Number(f64),
}

impl Request {
    pub(crate) fn new(resource: Resource, spans: Vec<SpanMessage>) -> Self {
        let scope = Scope { name: "rampmeter".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        Request { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] }
    }
}

impl Resource {
    /// Describes this process by the names of its service and instance.
    pub(crate) fn new(service: &str, instance: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let attributes = [("service.name", service), ("service.instance.id", instance), ("service.version", version)];
        Resource { attributes: attributes.map(|(key, text)| pair(key.to_owned(), text.into())).into() }
    }
}

impl SpanMessage {
    /// Encodes a span, with times by this wall clock.
    pub(crate) fn new(span: Span, wall_clock: WallClockOrigin) -> Self {
        let unix = |time| u64::try_from(wall_clock.unix_nanos(time)).unwrap_or(u64::MAX);
        SpanMessage {
            trace_id: span.context.trace_id().into(),
            span_id: span.context.span_id().into(),
            trace_state: span.state.map(String::from).unwrap_or_default(),
            parent_span_id: span.parent.map(Vec::from).unwrap_or_default(),
            name: span.name,
            kind: match span.kind {
                Kind::Server => SPAN_SERVER,
                Kind::Client => SPAN_CLIENT,
                Kind::Consumer => SPAN_CONSUMER,
            },
            start_time_unix_nano: unix(span.start),
            end_time_unix_nano: unix(span.end),
            attributes: span.attributes.into_iter().map(|(key, value)| pair(key.into_owned(), value)).collect(),
            links: span.links.into_iter().map(link).collect(),
            status: span.error.map(|message| Status { message, code: STATUS_ERROR }),
            flags: FLAGS,
        }
    }
}

fn link(to: TraceContext) -> Link {
    Link { trace_id: to.trace_id().into(), span_id: to.span_id().into(), flags: FLAGS }
}

fn pair(key: String, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => AttributeValue::Text(text),
        Value::Whole(number) => AttributeValue::Whole(number),
        Value::Number(number) => AttributeValue::Number(number),
    };
    KeyValue { key, value: Some(AnyValue { value: Some(value) }) }
}

//! The bounds of the wire format, each with its reason.

/// Units in one cost. Real policies count two or three units; the rest is room.
pub const MAX_UNITS: usize = 16;
/// Largest amount of one unit in one call, so that every product fits into 128 bits.
pub const MAX_AMOUNT: u64 = 1_000_000_000;
/// Labels of one request. Limits match on a handful.
pub const MAX_LABELS: usize = 16;
/// Other ways to make a call that a request may list. Each is priced on its own.
pub const MAX_WAYS: usize = 4;
/// Characters in a label's key.
pub const MAX_LABEL_KEY: usize = 64;
/// Characters in a label's value; a route or a tenant fits, a document does not.
pub const MAX_LABEL_VALUE: usize = 256;
/// Characters in a permit's id; a UUID takes 36.
pub const MAX_ID: usize = 64;
/// Characters in the name of a resource, unit, class or limit.
pub const MAX_NAME: usize = 64;
/// Longest duration in a message: a year and a day, beyond any quota's period.
pub const MAX_MILLIS: f64 = 366.0 * 86_400_000.0;
/// Elements of one array. A larger batch would delay all requests that wait for it.
pub const MAX_BATCH: usize = 1024;
/// Highest epoch: the largest integer that every JSON implementation keeps exactly.
pub const MAX_EPOCH: u64 = (1 << 53) - 1;
/// Headers in one settle. Only headers that describe rate limits are of use.
pub const MAX_HEADERS: usize = 64;
/// Characters in one header's value.
pub const MAX_HEADER_VALUE: usize = 1024;
/// Characters in a trace context: four times the 55 of its first version.
pub const MAX_TRACEPARENT: usize = 256;
/// Trace contexts in one message. A worker sends at most as many requests in one message.
pub const MAX_TRACE_CONTEXTS: usize = 64;
/// Characters in `tracestate`. The W3C standard asks systems to pass on at least 512.
pub const MAX_TRACESTATE: usize = 512;

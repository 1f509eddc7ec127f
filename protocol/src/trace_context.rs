//! The position of a message in a trace, as W3C Trace Context formats it.
//!
//! It travels in headers over NATS and HTTP, so that earlier schedulers ignore it; an invalid one is always ignored.

use crate::bounds::{MAX_TRACE_CONTEXTS, MAX_TRACEPARENT, MAX_TRACESTATE};
use std::fmt;

/// The header with the [`TraceContext`]: one value for all requests of a message, or one for each in their order.
pub const TRACEPARENT: &str = "traceparent";
/// The header with additions of tracing systems, which is passed on unread.
pub const TRACESTATE: &str = "tracestate";

/// The length of version 00: `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;

/// The span in which a message was sent.
///
/// ```
/// use rampmeter_protocol::trace_context::TraceContext;
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let context = TraceContext::parse(text).unwrap();
/// assert!(context.is_sampled());
/// assert_eq!(context.to_string(), text);
/// assert_eq!(TraceContext::parse("none"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
}

impl TraceContext {
    /// Creates the context of a span from its ids. `None` if an id is zero, which is invalid.
    #[must_use]
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], sampled: bool) -> Option<Self> {
        let context = TraceContext { trace_id, span_id, flags: u8::from(sampled) };
        (trace_id != [0; 16] && span_id != [0; 8]).then_some(context)
    }

    /// Parses a value of [`TRACEPARENT`]. Later versions may append fields.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_TRACEPARENT || !text.is_ascii() {
            return None;
        }
        let (known, later) = text.split_at_checked(LENGTH)?;
        let mut fields = known.split('-');
        let version = hex::<1>(fields.next()?)?;
        let context = (hex(fields.next()?)?, hex(fields.next()?)?, hex::<1>(fields.next()?)?);
        let is_whole = match version {
            [0] => later.is_empty(),
            [0xff] => false,
            [_] => later.is_empty() || later.starts_with('-'),
        };
        let (trace_id, span_id, [flags]) = context;
        let sampled = flags & SAMPLED != 0;
        if is_whole && fields.next().is_none() { TraceContext::new(trace_id, span_id, sampled) } else { None }
    }

    /// Returns the context of another span of the same trace; `None` if its id is zero.
    #[must_use]
    pub fn child(self, span_id: [u8; 8]) -> Option<Self> {
        TraceContext::new(self.trace_id, span_id, self.is_sampled())
    }

    /// Returns the trace's id.
    #[must_use]
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// Returns the span's id.
    #[must_use]
    pub fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// Returns whether the sender records its part of the trace.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the trace's id as logs print it, in 32 hex digits.
    #[must_use]
    pub fn trace(self) -> impl fmt::Display {
        format!("{:032x}", u128::from_be_bytes(self.trace_id))
    }
}

/// Parses lower-case hex, the only case that the standard allows.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = text.len() == 2 * N && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..text.len()).step_by(2)).take(if is_hex { N } else { 0 }) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    is_hex.then_some(bytes)
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace_id), u64::from_be_bytes(self.span_id));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns a value of [`TRACESTATE`] if it is short enough and visible ASCII.
#[must_use]
pub fn trace_state(text: &str) -> Option<&str> {
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    (!text.is_empty() && text.len() <= MAX_TRACESTATE && is_visible).then_some(text)
}

/// The contexts of a message's elements, from the values of its header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContexts(Vec<Option<TraceContext>>);

impl TraceContexts {
    /// Parses the first [`MAX_TRACE_CONTEXTS`] of these values.
    #[must_use]
    pub fn of<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        TraceContexts(values.into_iter().take(MAX_TRACE_CONTEXTS).map(TraceContext::parse).collect())
    }

    /// Adds the context of the element at `index`. Elements are added in order.
    pub fn add(&mut self, index: usize, context: Option<TraceContext>) {
        if context.is_some() && index < MAX_TRACE_CONTEXTS {
            self.0.resize(index, None);
            self.0.push(context);
        }
    }

    /// Expands the contexts to this many elements, so that a single one no longer applies to all.
    #[must_use]
    pub fn of_elements(mut self, elements: usize) -> Self {
        if !self.0.is_empty() {
            self.0.resize(elements.min(MAX_TRACE_CONTEXTS), None);
        }
        self
    }

    /// Returns whether any element has a context.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    /// Returns the memory that the contexts take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Returns the header values for these contexts, with an invalid one for no context.
    pub fn values(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|context| context.map_or("-".to_owned(), |context| context.to_string()))
    }

    /// Returns the context of the element at `index`: its own, or the single one for all.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<TraceContext> {
        match &*self.0 {
            [of_all] => *of_all,
            each => *each.get(index)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    fn parsed(text: &str) -> Option<String> {
        TraceContext::parse(text).map(|context| context.to_string())
    }

    #[test]
    fn what_the_standard_allows_is_read() {
        let whole = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(parsed(&whole).as_deref(), Some(&*whole));
        assert_eq!(parsed(&format!("00-{TRACE}-{SPAN}-fe")), Some(format!("00-{TRACE}-{SPAN}-00")));
        assert_eq!(parsed(&format!("cc-{TRACE}-{SPAN}-01-what-comes-later")), Some(whole.clone()));
        assert_eq!(parsed(&format!("cc-{TRACE}-{SPAN}-01")), Some(whole));
    }

    #[test]
    fn all_else_is_no_context() {
        let zero = "0".repeat(32);
        for text in [
            String::new(),
            "-".repeat(55),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("cc-{TRACE}-{SPAN}-01."),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{zero}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zero[..16]),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!("00-{TRACE}-{SPAN}-+1"),
            format!("0é-{TRACE}-{SPAN}-01"),
            format!("00{TRACE}-{SPAN}-01-"),
            format!("cc-{TRACE}-{SPAN}-01-{}", "x".repeat(MAX_TRACEPARENT)),
        ] {
            assert_eq!(parsed(&text), None, "{text}");
        }
    }

    #[test]
    fn a_state_is_bounded_and_visible() {
        let longest = "x".repeat(MAX_TRACESTATE);
        assert_eq!(trace_state(&longest), Some(&*longest));
        for text in ["", "a=b\nc", "ü=1", &format!("{longest}x")] {
            assert_eq!(trace_state(text), None, "{text}");
        }
    }

    #[test]
    fn one_context_is_for_all_elements_and_several_are_for_one_each() {
        let (first, second) = (format!("00-{TRACE}-{SPAN}-01"), format!("00-{TRACE}-{SPAN}-00"));
        let at = |values: &[&str], index| TraceContexts::of(values.iter().copied()).at(index);
        assert_eq!(at(&[&first], 7), TraceContext::parse(&first));
        assert_eq!(at(&[&first, &second], 1), TraceContext::parse(&second));
        assert_eq!([at(&[&first, "-"], 1), at(&[&first, "-"], 2), at(&[], 0)], [None; 3]);
        let mut contexts = TraceContexts::default();
        contexts.add(0, None);
        contexts.add(1, TraceContext::parse(&first));
        assert_eq!(contexts.of_elements(3), TraceContexts::of(["-", &first, "-"]));
        let contexts = TraceContexts::of([&*first, "-"]);
        assert!(contexts.values().eq([first.as_str(), "-"]) && contexts.has_any());
        assert!(!TraceContexts::of(["-"]).has_any());
        let many = TraceContexts::of(vec![&*first; MAX_TRACE_CONTEXTS + 1]);
        assert_eq!(many.values().count(), MAX_TRACE_CONTEXTS);
    }
}

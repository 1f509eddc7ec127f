//! HTTP headers for limits: `RateLimit` (draft-ietf-httpapi-ratelimit-headers) and `Retry-After`.

use crate::cost::REQUESTS;
use crate::left::Left;
use crate::name::Name;
use crate::time::Span;

/// More members would exceed the header size that proxies accept.
const MAX_MEMBERS: usize = 8;

/// Formats what limits have left, in whole requests and seconds; `None` without limits of requests.
///
/// ```
/// use rampmeter_protocol::left::Left;
/// use rampmeter_protocol::rate_limit::remaining;
///
/// let left = |limit: &'static str, unit: &'static str, remaining, reset_ms| {
///     Left { limit: limit.into(), unit: unit.into(), remaining, reset_ms }
/// };
/// let all = [
///     left("per-minute", "requests", 12.9, Some(29_001.0)),
///     left("in-flight", "requests", 3.0, None),
///     left("traffic", "bytes", 5.0, Some(1.0)),
/// ];
/// assert_eq!(remaining(&all).unwrap(), r#""per-minute";r=12;t=30, "in-flight";r=3"#);
/// assert_eq!(remaining(&all[2..]), None);
/// ```
#[must_use]
pub fn remaining(left: &[Left<'_>]) -> Option<String> {
    let counted = left.iter().filter(|left| &*left.unit == REQUESTS).take(MAX_MEMBERS);
    let member = |left: &Left<'_>| {
        let reset = left.reset_ms.map(|ms| (ms / 1000.0).ceil() as u64);
        member(&left.limit, left.remaining.floor() as u64, reset)
    };
    let members: Vec<String> = counted.map(member).collect();
    (!members.is_empty()).then(|| members.join(", "))
}

/// Formats a limit that has nothing left for this caller, and until when if known. A cheaper request might still fit.
///
/// ```
/// use rampmeter_protocol::{name::Name, rate_limit::exhausted, time::Span};
///
/// let few = Name::new("few").unwrap();
/// assert_eq!(exhausted(&few, Some(Span::from_millis(1001))), r#""few";r=0;t=2"#);
/// assert_eq!(exhausted(&few, None), r#""few";r=0"#);
/// ```
#[must_use]
pub fn exhausted(limit: &Name, after: Option<Span>) -> String {
    member(limit, 0, after.map(whole_seconds))
}

/// Returns a pause in whole seconds for `Retry-After`, rounded up to at least one second.
#[must_use]
pub fn whole_seconds(pause: Span) -> u64 {
    pause.nanos().div_ceil(Span::from_secs(1).nanos()).max(1)
}

/// Formats one member of the list. Names need no escaping.
fn member(limit: &str, remaining: u64, reset: Option<u64>) -> String {
    let reset = reset.map_or_else(String::new, |seconds| format!(";t={seconds}"));
    format!("\"{limit}\";r={remaining}{reset}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `MAX_MEMBERS`.
    #[test]
    fn eight_limits_are_told_and_the_ninth_is_not() {
        let names: Vec<String> = (1..=9).map(|number| format!("limit-{number}")).collect();
        let left =
            |name: &String| Left { limit: name.clone().into(), unit: REQUESTS.into(), remaining: 5.0, reset_ms: None };
        let header = |limits: usize| remaining(&names.iter().take(limits).map(left).collect::<Vec<_>>()).unwrap();
        assert!(header(8).ends_with(r#""limit-8";r=5"#));
        assert_eq!(header(9), header(8));
    }
}

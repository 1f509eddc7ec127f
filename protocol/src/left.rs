//! What a limit still has for a call that was let through.

use crate::cost::REQUESTS;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// One of the limits that a permit was charged to: of a keyed limit, the bucket of the call's own key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Left<'a> {
    /// Its name.
    #[serde(borrow)]
    pub limit: Text<'a>,
    /// What it counts.
    #[serde(borrow)]
    pub unit: Text<'a>,
    /// How much could be spent right now. What is promised to others for later is not left, nor is what is held back as margin.
    pub remaining: f64,
    /// When all of it is there again if nothing more is spent; absent where no time brings it back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reset_ms: Option<f64>,
}

/// More would not fit into the headers that proxies take from whom they ask.
const MAX_MEMBERS: usize = 8;

/// The value of the IETF's `RateLimit` (draft-ietf-httpapi-ratelimit-headers), in whole requests and seconds; nothing where no limit counts
/// requests.
///
/// ```
/// use rampmeter_protocol::left::{Left, rate_limit};
///
/// let left = |limit: &'static str, unit: &'static str, remaining, reset_ms| {
///     Left { limit: limit.into(), unit: unit.into(), remaining, reset_ms }
/// };
/// let all = [
///     left("per-minute", "requests", 12.9, Some(29_001.0)),
///     left("in-flight", "requests", 3.0, None),
///     left("traffic", "bytes", 5.0, Some(1.0)),
/// ];
/// assert_eq!(rate_limit(&all).unwrap(), r#""per-minute";r=12;t=30, "in-flight";r=3"#);
/// assert_eq!(rate_limit(&all[2..]), None);
/// ```
#[must_use]
pub fn rate_limit(left: &[Left<'_>]) -> Option<String> {
    let counted = left.iter().filter(|left| &*left.unit == REQUESTS).take(MAX_MEMBERS);
    let members: Vec<String> = counted.map(Left::member).collect();
    (!members.is_empty()).then(|| members.join(", "))
}

impl Left<'_> {
    /// Names need no escapes.
    fn member(&self) -> String {
        let reset = self.reset_ms.map(|ms| format!(";t={}", (ms / 1000.0).ceil()));
        format!("\"{}\";r={}{}", self.limit, self.remaining.floor(), reset.unwrap_or_default())
    }

    /// The same, independent of the message that it came in.
    #[must_use]
    pub fn into_owned(self) -> Left<'static> {
        Left { limit: self.limit.into_owned(), unit: self.unit.into_owned(), ..self }
    }
}

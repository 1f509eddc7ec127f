//! The unit of a bare number in `Retry-After`.

use rampmeter_protocol::suggestion::quoted;
use std::str::FromStr;

rampmeter_protocol::named! {
    /// The unit of a bare number in `Retry-After`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RetryAfterUnit {
        /// The unit of HTTP.
        Seconds = "seconds",
        /// The unit of Sentinel Hub.
        Milliseconds = "milliseconds",
    }
}

impl RetryAfterUnit {
    pub(crate) const fn in_millis(self) -> f64 {
        match self {
            RetryAfterUnit::Seconds => 1000.0,
            RetryAfterUnit::Milliseconds => 1.0,
        }
    }
}

impl FromStr for RetryAfterUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || quoted(RetryAfterUnit::ALL.map(RetryAfterUnit::as_str));
        RetryAfterUnit::named(text).ok_or_else(|| format!("`Retry-After` is not in `{text}`, but in {}", known()))
    }
}

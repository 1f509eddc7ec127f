//! The forms of `Retry-After`.

use std::{str::FromStr, time::Duration};

/// How the header `Retry-After` of a 429 states the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryAfter {
    /// Whole milliseconds, rounded up, as at Sentinel Hub.
    #[default]
    Milliseconds,
    /// Whole seconds, rounded up, as in HTTP.
    Seconds,
    /// No `Retry-After`.
    Missing,
}

impl RetryAfter {
    /// Returns the number in the header for this wait, or `None` for no header.
    #[must_use]
    pub fn of(self, wait: Duration) -> Option<u128> {
        self.unit().map(|unit| wait.as_nanos().div_ceil(unit.as_nanos()))
    }

    pub(crate) fn unit(self) -> Option<Duration> {
        match self {
            Self::Milliseconds => Some(Duration::from_millis(1)),
            Self::Seconds => Some(Duration::from_secs(1)),
            Self::Missing => None,
        }
    }
}

impl FromStr for RetryAfter {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "ms" => Ok(Self::Milliseconds),
            "seconds" => Ok(Self::Seconds),
            "none" => Ok(Self::Missing),
            _ => Err(format!("`Retry-After` is in `ms` or `seconds`, or there is `none`, but not `{name}`")),
        }
    }
}

//! How a 429 states the wait.

use std::{str::FromStr, time::Duration};

/// How the header `Retry-After` of a 429 states the wait.
///
/// ```
/// use rampmeter_upstream::RetryAfter;
/// use std::time::Duration;
///
/// let wait = Duration::from_micros(1_200_001);
/// assert_eq!(RetryAfter::Milliseconds.of(wait), Some(1_201));
/// assert_eq!(RetryAfter::Seconds.of(wait), Some(2));
/// assert_eq!(RetryAfter::Missing.of(wait), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryAfter {
    /// In whole milliseconds, rounded up, as Sentinel Hub does.
    #[default]
    Milliseconds,
    /// In whole seconds, rounded up, as HTTP has it.
    Seconds,
    /// A 429 has no `Retry-After`.
    Missing,
}

impl RetryAfter {
    /// The number in the header for this wait, or `None` for no header.
    #[must_use]
    pub fn of(self, wait: Duration) -> Option<u128> {
        self.unit().map(|unit| wait.as_nanos().div_ceil(unit.as_nanos()))
    }

    /// What the number in the header counts.
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

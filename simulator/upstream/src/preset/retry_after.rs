//! How a 429 states the wait.

use crate::Rejection;
use std::str::FromStr;

/// How the header `Retry-After` of a 429 states the wait.
///
/// ```
/// use rampmeter_upstream::{Rejection, RetryAfter};
/// use std::time::Duration;
///
/// let rejection = Rejection::RetryAfter(Duration::from_micros(1_200_001));
/// assert_eq!(RetryAfter::Milliseconds.of(rejection), Some(1_201));
/// assert_eq!(RetryAfter::Seconds.of(rejection), Some(2));
/// assert_eq!(RetryAfter::Missing.of(rejection), None);
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
    /// The number in the header, or `None` for no header. A rejection without a known wait never
    /// has one.
    #[must_use]
    pub fn of(self, rejection: Rejection) -> Option<u128> {
        match self {
            Self::Milliseconds => rejection.retry_after_ms(),
            Self::Seconds => rejection.retry_after_seconds(),
            Self::Missing => None,
        }
    }
}

/// A name that no form has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`Retry-After` is in `ms` or `seconds`, or there is `none`, but not `{name}`")]
pub struct UnknownForm {
    name: String,
}

impl FromStr for RetryAfter {
    type Err = UnknownForm;

    fn from_str(name: &str) -> Result<Self, UnknownForm> {
        match name {
            "ms" => Ok(Self::Milliseconds),
            "seconds" => Ok(Self::Seconds),
            "none" => Ok(Self::Missing),
            unknown => Err(UnknownForm { name: unknown.to_owned() }),
        }
    }
}

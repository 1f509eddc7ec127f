//! The answer to a call that is too early.

use std::time::Duration;

/// Why a call was not admitted: when to come back, or that coming back is useless.
///
/// The order is by urgency of patience: a longer wait is greater, and never is greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rejection {
    /// All policies can pay after this time, if nobody else spends anything until then. Rounded up to a nanosecond.
    RetryAfter(Duration),
    /// The cost is above a capacity, or a fixed amount is used up.
    Never,
}

impl Rejection {
    /// The wait in whole milliseconds, rounded up; `None` when coming back is useless.
    ///
    /// ```
    /// use rampmeter_upstream::Rejection;
    /// use std::time::Duration;
    ///
    /// assert_eq!(Rejection::RetryAfter(Duration::from_nanos(1)).retry_after_ms(), Some(1));
    /// assert_eq!(Rejection::Never.retry_after_ms(), None);
    /// ```
    #[must_use]
    pub fn retry_after_ms(self) -> Option<u128> {
        match self {
            Self::RetryAfter(wait) => Some(wait.as_nanos().div_ceil(1_000_000)),
            Self::Never => None,
        }
    }
}

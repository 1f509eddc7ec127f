//! The answer to a call that is not admitted.

use std::time::Duration;

/// Why a call was not admitted: when to come back, that nobody can say when, or that coming back is
/// useless.
///
/// The order is by urgency of patience: a longer wait is greater, a wait of unknown length is
/// greater than any, and never is greatest. Of several reasons the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rejection {
    /// All policies can pay after this time, and not before, if nobody else calls until then.
    /// Rounded up to a nanosecond.
    RetryAfter(Duration),
    /// As many admitted calls are under way as may be: one of them has to end first.
    TooManyInFlight,
    /// The cost is above what a policy ever holds, a fixed amount is used up, nothing flows in, or
    /// the wait is beyond 2⁶⁴ nanoseconds, about 584 years.
    Never,
}

impl Rejection {
    /// The wait in whole milliseconds, rounded up; `None` when coming back is useless or nobody can
    /// say when.
    ///
    /// ```
    /// use rampmeter_upstream::Rejection;
    /// use std::time::Duration;
    ///
    /// assert_eq!(Rejection::RetryAfter(Duration::from_nanos(1)).retry_after_ms(), Some(1));
    /// assert_eq!(Rejection::TooManyInFlight.retry_after_ms(), None);
    /// assert_eq!(Rejection::Never.retry_after_ms(), None);
    /// ```
    #[must_use]
    pub fn retry_after_ms(self) -> Option<u128> {
        self.retry_after_in(Duration::from_millis(1))
    }

    /// The wait in whole seconds, rounded up; `None` when coming back is useless or nobody can say
    /// when.
    ///
    /// ```
    /// use rampmeter_upstream::Rejection;
    /// use std::time::Duration;
    ///
    /// assert_eq!(Rejection::RetryAfter(Duration::from_millis(1_001)).retry_after_seconds(), Some(2));
    /// assert_eq!(Rejection::Never.retry_after_seconds(), None);
    /// ```
    #[must_use]
    pub fn retry_after_seconds(self) -> Option<u128> {
        self.retry_after_in(Duration::from_secs(1))
    }

    pub(crate) fn after_ns(wait_ns: u128) -> Self {
        u64::try_from(wait_ns).map_or(Self::Never, |wait_ns| Self::RetryAfter(Duration::from_nanos(wait_ns)))
    }

    fn retry_after_in(self, unit: Duration) -> Option<u128> {
        match self {
            Self::RetryAfter(wait) => Some(wait.as_nanos().div_ceil(unit.as_nanos())),
            Self::TooManyInFlight | Self::Never => None,
        }
    }
}

//! Why a call is not admitted.

use std::time::Duration;

/// Why a call was not admitted: a time to return, no known time, or never.
///
/// A longer wait is greater, an unknown wait is greater than any known one, and never is greatest.
/// Of several reasons the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rejection {
    /// After this time all policies can pay, and not before, if no other call arrives meanwhile.
    /// Rounded up to a nanosecond.
    RetryAfter(Duration),
    /// The bound on calls in flight is reached: one of them has to end first.
    TooManyInFlight,
    /// The call can never be paid: its cost is above what a policy ever holds, or a fixed amount is
    /// used up. The same holds if nothing flows in, and for waits beyond 2⁶⁴ nanoseconds, about 584
    /// years.
    Never,
}

impl Rejection {
    pub(crate) fn after_ns(wait_ns: u128) -> Self {
        u64::try_from(wait_ns).map_or(Self::Never, |wait_ns| Self::RetryAfter(Duration::from_nanos(wait_ns)))
    }
}

//! Reasons for rejecting calls.

use std::time::Duration;

/// The reason for rejecting a call: it has to wait for a known or an unknown time, or forever. Of several reasons the
/// greatest counts: a longer wait is greater, an unknown one greater still, and never greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rejection {
    /// All policies can pay after exactly this time, rounded up to nanoseconds, without other calls.
    RetryAfter(Duration),
    /// The bound on calls in flight is reached: one of them has to end first.
    TooManyInFlight,
    /// The call can never be paid: it costs more than a policy ever holds, a fixed amount is used
    /// up, nothing flows in, or the wait exceeds 2⁶⁴ nanoseconds, about 584 years.
    Never,
}

impl Rejection {
    pub(crate) fn after_ns(wait_ns: u128) -> Self {
        u64::try_from(wait_ns).map_or(Self::Never, |wait_ns| Self::RetryAfter(Duration::from_nanos(wait_ns)))
    }
}

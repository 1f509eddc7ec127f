//! The rate of an uncoordinated client.

use rampmeter_protocol::time::Span;
use std::time::Duration;

/// Shortest interval, a thousand calls a second. A higher rate is practically unlimited.
const SHORTEST: Span = Span::from_millis(1);
/// Longest interval, one call a day. A lower rate is practically zero.
const LONGEST: Span = Span::from_secs(86_400);

/// The rate at which one client calls one resource while no scheduler coordinates it.
///
/// Calls are evenly spaced without a burst, and the spacing is rounded up. **Only calls count, not their cost
/// in other units**, and each client counts for itself: a hundred clients call a hundred times as often. A
/// safe rate is the limits' worst-case capacity, divided by the number of clients and the dearest call's cost.
///
/// ```
/// use rampmeter_worker_session::SafeRate;
/// use std::time::Duration;
///
/// assert!(SafeRate::new(10, Duration::from_secs(60)).is_ok());
/// let error = SafeRate::new(0, Duration::from_secs(1)).unwrap_err();
/// assert_eq!(error.to_string(), "a safe rate is from one call a day to 1000 calls a second, not 0 calls in 1s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafeRate {
    interval: Span,
}

/// The numbers are not a valid [`SafeRate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a safe rate is from one call a day to 1000 calls a second, not {calls} calls in {per:?}")]
pub struct SafeRateError {
    calls: u32,
    per: Duration,
}

impl SafeRate {
    /// Creates a rate of `calls` evenly spaced in the time `per`.
    ///
    /// # Errors
    /// If that is more than 1000 calls a second, or less than one a day.
    pub fn new(calls: u32, per: Duration) -> Result<Self, SafeRateError> {
        let wrong = SafeRateError { calls, per };
        if calls == 0 {
            return Err(wrong);
        }
        // Rounded up, so that no time contains more calls than configured.
        let nanos = per.as_nanos().div_ceil(u128::from(calls));
        let interval = u64::try_from(nanos).map(Span::from_nanos).map_err(|_| wrong)?;
        let fits = (SHORTEST..=LONGEST).contains(&interval);
        if fits { Ok(SafeRate { interval }) } else { Err(wrong) }
    }

    pub(crate) fn interval(self) -> Span {
        self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(calls: u32, per: Duration, interval_ns: Option<u64>) {
        let interval = SafeRate::new(calls, per).ok().map(|rate| rate.interval().nanos());
        assert_eq!(interval, interval_ns, "{calls} in {per:?}");
    }

    #[test]
    fn a_safe_rate_is_bounded_and_never_rounded_to_more() {
        check(3, Duration::from_secs(1), Some(333_333_334));
        check(1000, Duration::from_secs(1), Some(1_000_000));
        check(1001, Duration::from_secs(1), None);
        check(1, Duration::from_secs(86_400), Some(86_400_000_000_000));
        check(1, Duration::from_secs(86_401), None);
        check(1, Duration::ZERO, None);
        check(0, Duration::from_secs(1), None);
        check(u32::MAX, Duration::MAX, None);
    }
}

//! Limits the use of stock that was never observed.
//!
//! A bucket may count as full only because its state is unknown, while the upstream's bucket is
//! empty. A burst of calls would then be rejected as a whole, so calls go only a little beyond the
//! stock that served calls have proven, like a congestion window that does not grow (compare RFC
//! 5681). Refill is not held back, so the rate suffers no loss.

use rampmeter_protocol::time::{Span, Time};

/// How many calls may go beyond the proven stock.
pub(crate) const MAX_CALLS_BEYOND: u64 = 4;
/// Below one part in this many of a full bucket, only one call may go beyond: gaps show there.
pub(crate) const NEARLY_EMPTY_PART: u64 = 20;
/// A call without a reported outcome counts as served after this time.
const SERVED_AFTER: Span = Span::from_secs(1);
/// A limit with a longer period has no slow start, which would take as long.
const LONGEST_PERIOD: Span = Span::from_secs(600);
const PERIODS: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowStart {
    ends: Time,
    first: Option<Time>,
    served: Option<Time>,
}

impl SlowStart {
    /// Begins slow start for a bucket that fills within `period`, if that is short enough.
    pub(crate) fn for_period(now: Time, period: Span) -> Option<Self> {
        let ends = now + Span::from_nanos(period.nanos().saturating_mul(PERIODS));
        (period <= LONGEST_PERIOD).then_some(SlowStart { ends, first: None, served: None })
    }

    pub(crate) fn note_start(&mut self, at: Time) {
        self.first.get_or_insert(at);
    }

    pub(crate) fn note_served(&mut self, at: Time) {
        self.served = self.served.max(Some(at));
    }

    /// Returns the latest start that counts as served, by report or by [`SERVED_AFTER`].
    pub(crate) fn served(&self, now: Time) -> Option<Time> {
        let long_ago = self.first.map(|first| first.max(now - SERVED_AFTER)).filter(|at| *at + SERVED_AFTER <= now);
        self.served.max(long_ago)
    }

    /// Whether slow start has ended by time, or because no worker reports outcomes.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        let silent = self.served.is_none() && self.first.is_some_and(|first| first + SERVED_AFTER <= now);
        silent || self.ends <= now
    }
}

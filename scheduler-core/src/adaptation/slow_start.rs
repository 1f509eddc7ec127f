//! Trust in stock that nobody has seen.
//!
//! A bucket that is full because nobody knows better may not be full at the upstream: whoever takes all of it at once is told 429
//! as often. So it is drawn on as far as calls are known to have been served, and a few further, like a congestion window
//! that does not grow (compare RFC 5681). What refills is not held back, so that nothing is lost by it but time.

use rampmeter_protocol::time::{Span, Time};

/// How many calls go beyond what is known.
pub(crate) const BEYOND: u64 = 4;
/// Near the ground, below one part in this many of a full bucket, one call alone does: there it is the likeliest that nothing is left.
pub(crate) const GROUND: u64 = 20;
/// A call of which nothing is heard for so long was served. If nothing is heard of any, nobody tells.
const PATIENCE: Span = Span::from_secs(1);
/// Stock that lasts longer is believed: its proof would take as long.
const LONGEST_PERIOD: Span = Span::from_secs(600);
/// A bucket is believed after so many periods, whatever was used of it.
const PERIODS: u64 = 10;

/// What is known of a full bucket that nobody has drawn on yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowStart {
    ends: Time,
    /// The first start.
    first: Option<Time>,
    /// The latest start that is known to have been served.
    served: Option<Time>,
}

impl SlowStart {
    /// The proof of a bucket that fills within `period`, if one is wanted.
    pub(crate) fn wanted(now: Time, period: Span) -> Option<Self> {
        let ends = now + Span::from_nanos(period.nanos().saturating_mul(PERIODS));
        (period <= LONGEST_PERIOD).then_some(SlowStart { ends, first: None, served: None })
    }

    pub(crate) fn note_start(&mut self, at: Time) {
        self.first.get_or_insert(at);
    }

    pub(crate) fn note_served(&mut self, at: Time) {
        self.served = self.served.max(Some(at));
    }

    /// The latest start that counts as served; none where nothing has started for long enough.
    pub(crate) fn served(&self, now: Time) -> Option<Time> {
        let long_ago = self.first.map(|first| first.max(now - PATIENCE)).filter(|at| *at + PATIENCE <= now);
        self.served.max(long_ago)
    }

    /// Whether nobody will tell any more.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        let silent = self.served.is_none() && self.first.is_some_and(|first| first + PATIENCE <= now);
        silent || self.ends <= now
    }
}

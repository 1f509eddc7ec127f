//! Stock that a predecessor may have promised for later.

use crate::arithmetic::Credit;
use rampmeter_protocol::time::{Span, Time};

/// Steps that lower a bucket's full level: each credit counts until its time. Later credits are no
/// higher.
///
/// A successor charges promises before their starts, so its bucket would refill too early: the
/// upstream's bucket is still full then, and loses that refill. So the successor's full level is
/// lower until then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingDebits(Vec<(Time, Credit)>);

impl PendingDebits {
    /// Steps are in the order of time.
    pub(crate) fn new(steps: Vec<(Time, Credit)>) -> Self {
        assert!(steps.is_sorted_by(|(a, more), (b, less)| a < b && more >= less), "pending debits only shrink");
        PendingDebits(steps)
    }

    pub(crate) const fn none() -> Self {
        PendingDebits(Vec::new())
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The credit that is pending at `time`.
    pub(crate) fn at(&self, time: Time) -> Credit {
        self.0.iter().find(|(until, _)| time <= *until).map_or(Credit::ZERO, |(_, credit)| *credit)
    }

    /// The earliest time at which at most `most` is pending.
    pub(crate) fn at_most(&self, most: Credit) -> Time {
        let last = self.0.iter().rev().find(|(_, credit)| *credit > most);
        last.map_or(Time::ORIGIN, |(until, _)| *until + Span::from_nanos(1))
    }

    /// Each step's end, and what is pending until then.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (Time, Credit)> {
        self.0.iter().copied()
    }

    /// Forgets the steps that ended before `now`.
    pub(crate) fn forget_before(&mut self, now: Time) {
        if self.0.first().is_some_and(|(until, _)| *until < now) {
            self.0.retain(|(until, _)| *until >= now);
        }
    }
}

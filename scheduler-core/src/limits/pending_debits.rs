//! Stock that a predecessor may have promised for later.

use crate::arithmetic::Credit;
use rampmeter_protocol::time::{Span, Time};

/// How much less than full a bucket can be, step by step: until each time, that much. It only gets less.
///
/// A successor that counts promises as spent before their starts lets the bucket refill too early: an upstream's
/// bucket that is full until then loses what comes in meanwhile. So the successor's runs over this much earlier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingDebits(Vec<(Time, Credit)>);

impl PendingDebits {
    /// Steps in the order of time.
    pub(crate) fn new(steps: Vec<(Time, Credit)>) -> Self {
        assert!(
            steps.is_sorted_by(|(a, more), (b, less)| a < b && more >= less),
            "what is pending_debits only gets less"
        );
        PendingDebits(steps)
    }

    pub(crate) const fn none() -> Self {
        PendingDebits(Vec::new())
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// What is withheld at `time`.
    pub(crate) fn at(&self, time: Time) -> Credit {
        self.0.iter().find(|(until, _)| time <= *until).map_or(Credit::ZERO, |(_, credit)| *credit)
    }

    /// From when on no more than `most` is.
    pub(crate) fn at_most(&self, most: Credit) -> Time {
        let last = self.0.iter().rev().find(|(_, credit)| *credit > most);
        last.map_or(Time::ORIGIN, |(until, _)| *until + Span::from_nanos(1))
    }

    /// When each step ends, and what is withheld until then.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (Time, Credit)> {
        self.0.iter().copied()
    }

    /// Forgets the steps that have ended before `now`.
    pub(crate) fn forget_before(&mut self, now: Time) {
        if self.0.first().is_some_and(|(until, _)| *until < now) {
            self.0.retain(|(until, _)| *until >= now);
        }
    }
}

//! Expects other accounts to use as much of a window as of the last ones.
//!
//! Under load, permits use a window up as soon as it begins. If other accounts use the window
//! afterwards, calls on their way are rejected. So as much as other accounts used of the last
//! windows is held back, and ever less of it towards the window's end.

use crate::arithmetic::{Credit, Window};
use crate::policy::Limit;
use crate::policy::spec::Learn;
use rampmeter_protocol::time::{Span, Time};

/// If other accounts use less than expected, each window lowers the expectation by one part in this
/// many of the difference.
const FALL_PART: u64 = 16;

/// Usage by other accounts, window by window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExpectedUsage {
    /// The end of the last window that a response reported.
    ends: Option<Time>,
    /// The usage of that window by other accounts.
    used: Credit,
    /// The usage that was expected for that window.
    expected: Credit,
}

impl ExpectedUsage {
    /// Notes that other accounts have used `used` of `window`.
    pub(crate) fn note(&mut self, window: Window, used: Credit) {
        if !self.is_reported(window) {
            (self.expected, self.used) = (self.of(window), Credit::ZERO);
        }
        (self.ends, self.used) = (Some(window.ends), self.used.max(used));
    }

    /// The expected usage of `window` by other accounts.
    pub(crate) fn of(&self, window: Window) -> Credit {
        let less = (self.expected - self.used).max(Credit::ZERO);
        match self.is_reported(window) || self.ends.is_none() {
            true => self.expected,
            false => self.expected.max(self.used) - less.divided_by(FALL_PART),
        }
    }

    /// Whether the last report was on `window`, whose end may have become known better since.
    fn is_reported(&self, window: Window) -> bool {
        let middle = window.starts + Span::from_nanos(window.length().nanos() / 2);
        self.ends.is_some_and(|ends| ends > middle)
    }
}

/// The most that is held back of a limit. The share that is the floor of its learning stays for
/// permits. Long limits hold nothing back, because that would last too long.
pub(crate) fn most_expected(limit: &Limit) -> Credit {
    const PARTS: u64 = 1000;
    match limit.spec().learn {
        Learn::Above(floor) if !limit.has_long_period() => {
            limit.full().divided_by(PARTS).times(((1.0 - floor) * PARTS as f64) as u64)
        }
        Learn::Above(_) | Learn::Never | Learn::Steered(_) => Credit::ZERO,
    }
}

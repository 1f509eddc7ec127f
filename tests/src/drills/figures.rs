//! Measurements of a run, for people.

use rampmeter_protocol::time::Span;
use std::fmt;

/// Durations of one kind, such as all gaps of a run.
#[derive(Clone, Debug, Default)]
pub struct Times {
    sorted: Vec<Span>,
}

impl Times {
    /// Adds one.
    pub fn add(&mut self, time: Span) {
        let place = self.sorted.partition_point(|known| *known <= time);
        self.sorted.insert(place, time);
    }

    /// The duration that `percent` of a hundred do not exceed; `None` without durations.
    pub fn quantile(&self, percent: usize) -> Option<Span> {
        let rank = (self.sorted.len() * percent).div_ceil(100);
        self.sorted.get(rank.saturating_sub(1)).copied()
    }

    /// The longest.
    pub fn longest(&self) -> Span {
        self.sorted.last().copied().unwrap_or(Span::ZERO)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |percent| self.quantile(percent).unwrap_or(Span::ZERO).millis();
        let count = self.sorted.len();
        write!(f, "p50 {:.0} ms, p99 {:.0} ms, max {:.0} ms of {count}", millis(50), millis(99), millis(100))
    }
}

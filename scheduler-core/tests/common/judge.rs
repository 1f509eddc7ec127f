//! A token bucket the slow way, which shares no code with the core.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::spec::LimitSpec;

/// A token bucket that replays all calls whenever it is asked. All levels are in millionths times
/// the period in nanoseconds, so that nothing is rounded.
pub(crate) struct Judge {
    capacity: i128,
    period: i128,
}

impl Judge {
    pub(crate) fn new(limit: &LimitSpec) -> Self {
        Judge { capacity: i128::from(limit.capacity.micros()), period: i128::from(limit.period.nanos()) }
    }

    /// The lowest level that these calls, by start and cost, ever leave behind, below zero if one
    /// found too little.
    pub(crate) fn lowest(&self, calls: &[(Time, Amount)]) -> i128 {
        self.levels_behind(calls).into_iter().map(|(_, level)| level).min().unwrap_or(self.full())
    }

    /// The level at `now` behind these calls, none of them later, in whole millionths, rounded down.
    pub(crate) fn level_micros(&self, calls: &[(Time, Amount)], now: Time) -> i128 {
        let (at, level) = self.levels_behind(calls).last().copied().unwrap_or((0, self.full()));
        self.refilled(level, nanos(now) - at).div_euclid(self.period)
    }

    fn levels_behind(&self, calls: &[(Time, Amount)]) -> Vec<(i128, i128)> {
        let mut sorted = calls.to_vec();
        sorted.sort_by_key(|(at, _)| *at);
        let (mut level, mut last) = (self.full(), 0);
        let behind = |(at, cost): (Time, Amount)| {
            level = self.refilled(level, nanos(at) - last) - i128::from(cost.micros()) * self.period;
            last = nanos(at);
            (last, level)
        };
        sorted.into_iter().map(behind).collect()
    }

    fn refilled(&self, level: i128, nanos: i128) -> i128 {
        self.full().min(level + nanos * self.capacity)
    }

    fn full(&self) -> i128 {
        self.capacity * self.period
    }
}

fn nanos(time: Time) -> i128 {
    i128::from(time.nanos())
}

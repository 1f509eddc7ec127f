//! A slow judge of limits, which shares no code with the core.

use rampmeter_policy::spec::{Algorithm, Alignment, LimitSpec};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// A token bucket that replays all calls on every question. Levels are in millionths times the
/// period in nanoseconds, so that nothing is rounded.
pub(crate) struct Judge {
    capacity: i128,
    period: i128,
}

impl Judge {
    pub(crate) fn new(limit: &LimitSpec) -> Self {
        Judge { capacity: i128::from(limit.capacity.micros()), period: i128::from(limit.period.nanos()) }
    }

    /// The lowest level after any of these calls, given by start and cost. Negative if a call found
    /// too little.
    pub(crate) fn lowest(&self, calls: &[(Time, Amount)]) -> i128 {
        self.levels_behind(calls).into_iter().map(|(_, level)| level).min().unwrap_or(self.full())
    }

    /// The level at `now` after these calls, none of them later, in millionths, rounded down.
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

/// A naive judge of limits that count: windows, or calls that hold something for a while.
pub(crate) struct Counter {
    capacity: i128,
    period: u64,
    algorithm: Algorithm,
}

/// A call: its start, its end, and its amount.
pub(crate) type Held = (Time, Time, Amount);

impl Counter {
    pub(crate) fn new(limit: &LimitSpec) -> Self {
        let (capacity, period) = (i128::from(limit.capacity.micros()), limit.period.nanos());
        Counter { capacity, period, algorithm: limit.algorithm.clone() }
    }

    /// The least amount that was ever left, in millionths. Below zero if calls took too much.
    pub(crate) fn lowest(&self, calls: &[Held]) -> i128 {
        // A call without cost opens no window.
        let mut sorted: Vec<Held> = calls.iter().copied().filter(|(.., cost)| *cost > Amount::ZERO).collect();
        sorted.sort_by_key(|(at, ..)| *at);
        let taken = match &self.algorithm {
            Algorithm::FixedWindow(Alignment::FirstUse) => self.by_first_use(&sorted),
            Algorithm::FixedWindow(_) => self.by_epoch(&sorted),
            Algorithm::SlidingWindow => overlaps(&sorted, |at, _| at + Span::from_nanos(self.period)),
            Algorithm::Concurrency => overlaps(&sorted, |_, until| until),
            Algorithm::Quota(Some(Alignment::Epoch)) => self.by_epoch(&sorted),
            Algorithm::Quota(None) => sorted.iter().map(|(.., cost)| micros(*cost)).sum(),
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Quota(_) => panic!("not judged here"),
        };
        self.capacity - taken
    }

    fn by_epoch(&self, calls: &[Held]) -> i128 {
        let mut windows: BTreeMap<u64, i128> = BTreeMap::new();
        calls.iter().for_each(|(at, _, cost)| *windows.entry(at.nanos() / self.period).or_default() += micros(*cost));
        windows.into_values().max().unwrap_or(0)
    }

    fn by_first_use(&self, calls: &[Held]) -> i128 {
        let (mut ends, mut taken, mut most) = (Time::ORIGIN, 0, 0);
        for (at, _, cost) in calls {
            if *at >= ends {
                (ends, taken) = (*at + Span::from_nanos(self.period), 0);
            }
            taken += micros(*cost);
            most = most.max(taken);
        }
        most
    }
}

/// The most that is held at once, which is right after some start.
fn overlaps(calls: &[Held], end: impl Fn(Time, Time) -> Time) -> i128 {
    let held_at = |time: Time| -> i128 {
        let held = calls.iter().filter(|(at, until, _)| *at <= time && time < end(*at, *until));
        held.map(|(.., cost)| micros(*cost)).sum()
    };
    calls.iter().map(|(at, ..)| held_at(*at)).max().unwrap_or(0)
}

fn micros(amount: Amount) -> i128 {
    i128::from(amount.micros())
}

fn nanos(time: Time) -> i128 {
    i128::from(time.nanos())
}

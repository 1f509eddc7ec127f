//! An upstream that counts in windows, and reports them in its answers.

use super::PERIOD;
use crate::prelude::*;

/// How an upstream counts and answers.
#[derive(Clone)]
pub(super) struct Habits {
    pub(super) capacity: u64,
    /// Times in milliseconds, each with the capacity from then on.
    pub(super) capacities: Vec<(u64, u64)>,
    /// How many milliseconds after multiples of the period windows begin. The windows of each key
    /// are shifted further, each by another time.
    pub(super) phase: u64,
    /// From this time on, windows begin a third of a period later.
    pub(super) jumps_at: Option<u64>,
    /// The number of keys, each of which has windows of its own.
    pub(super) keys: u64,
    /// What its headers tell.
    pub(super) headers: Headers,
}

/// What headers tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Headers {
    Exact,
    /// Whole seconds, rounded up.
    WholeSeconds,
    /// No answer but a rejection tells anything.
    Missing,
    /// Each answer tells a random capacity, remaining amount and end.
    Random,
}

/// The answer to a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Answer {
    pub(super) served: bool,
    pub(super) capacity: u64,
    pub(super) left: u64,
    /// The milliseconds until the window ends.
    pub(super) reset: u64,
}

pub(super) struct Upstream {
    habits: Habits,
    /// The present window of each key.
    windows: BTreeMap<u64, Window>,
}

#[derive(Clone, Copy, Default)]
struct Window {
    number: u64,
    served: u64,
    /// How many of the served calls are strangers'.
    strangers: u64,
}

impl Upstream {
    pub(super) fn new(habits: Habits) -> Self {
        Upstream { habits, windows: BTreeMap::new() }
    }

    fn capacity(&self, at: u64) -> u64 {
        let later = self.habits.capacities.iter().rfind(|(from, _)| *from <= at);
        later.map_or(self.habits.capacity, |(_, capacity)| *capacity)
    }

    /// The window of a key, and how long it lasts.
    fn window(&mut self, at: u64, key: u64) -> (&mut Window, u64) {
        let later = self.habits.jumps_at.is_some_and(|jump| at >= jump);
        let phase = (self.habits.phase + key * 7_919) % PERIOD;
        let shifted = at + PERIOD - phase + if later { PERIOD * 2 / 3 } else { 0 };
        let number = shifted / PERIOD + if later { 1_000_000 } else { 0 };
        let window = self.windows.entry(key).or_default();
        if window.number != number {
            *window = Window { number, ..Window::default() };
        }
        (window, PERIOD - shifted % PERIOD)
    }

    /// Serves a call, or rejects it.
    pub(super) fn call(&mut self, at: u64, key: u64) -> Answer {
        let capacity = self.capacity(at);
        let (window, reset) = self.window(at, key);
        let served = window.served < capacity;
        window.served += u64::from(served);
        Answer { served, capacity, left: capacity.saturating_sub(window.served), reset }
    }

    /// Serves a stranger, which calls no more once it was served `most` times in a window.
    pub(super) fn stranger(&mut self, at: u64, key: u64, most: u64) -> bool {
        let served = self.window(at, key).0.strangers < most && self.call(at, key).served;
        self.window(at, key).0.strangers += u64::from(served);
        served
    }
}

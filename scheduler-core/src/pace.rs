//! How fast the clock of a line runs.

use crate::virtual_time::VirtualTime;
use rampmeter_protocol::time::{Span, Time};

/// Over how long the pace is averaged: long enough for a round of many clients, short enough to follow the load.
const WINDOW: Span = Span::from_secs(120);

/// Virtual time per time, averaged with exponentially falling weights. Whoever will come and go first is in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    at: Time,
    clock: VirtualTime,
    /// Nanoseconds of virtual time in a nanosecond; none before the first window is over.
    average: Option<f64>,
}

impl Pace {
    pub(crate) fn new(now: Time) -> Self {
        Pace { at: now, clock: VirtualTime::default(), average: None }
    }

    /// Notes that the clock shows `clock` at `now`.
    pub(crate) fn note(&mut self, now: Time, clock: VirtualTime) {
        let passed = now.since(self.at).secs();
        if clock == self.clock || passed < WINDOW.secs() / 30.0 {
            return;
        }
        let latest = clock.since(self.clock).secs() / passed;
        let weight = passed / (passed + WINDOW.secs());
        self.average = Some(self.average.map_or(latest, |average| average + (latest - average) * weight));
        (self.at, self.clock) = (now, clock);
    }

    /// Leaves out the time until now, in which nobody was held.
    pub(crate) fn restart(&mut self, now: Time, clock: VirtualTime) {
        (self.at, self.clock) = (now, clock);
    }

    /// How long the clock takes for `distance`, if its pace is known.
    pub(crate) fn time_for(&self, distance: Span) -> Option<Span> {
        let average = self.average.filter(|average| *average > 0.0)?;
        Some(Span::from_nanos((distance.secs() / average * 1e9) as u64))
    }
}

//! The virtual time of start-time fair queueing (Goyal, Vin and Cheng, 1997), and its clocks.

use rampmeter_protocol::time::{Span, Time};

/// The time over which the pace is averaged: long enough for a round of many clients, and short
/// enough to follow the load.
const WINDOW: Span = Span::from_secs(120);

/// How much service a client has had, in nanoseconds of the resource at a weight of one.
///
/// It begins again whenever the queue is empty. If that does not happen for centuries, it
/// saturates, and only the order of arrival decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VirtualTime(u64);

impl VirtualTime {
    pub(crate) const MAX: VirtualTime = VirtualTime(u64::MAX);

    pub(crate) fn since(self, earlier: VirtualTime) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }

    #[must_use]
    pub(crate) fn after(self, service: Span) -> Self {
        VirtualTime(self.0.saturating_add(service.nanos()))
    }
}

/// Shows the virtual time at which the slices of currently served requests begin.
///
/// The pace of a clock is the real time per virtual time, as an exponentially weighted average. So
/// the pace includes later requests that still go first, and requests of other classes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VirtualClock {
    pub(crate) time: VirtualTime,
    /// When the pace was last measured, and what the clock showed.
    measured: (Time, VirtualTime),
    /// Nanoseconds per virtual nanosecond; none before the first measurement.
    pace: Option<f64>,
}

impl VirtualClock {
    pub(crate) fn new(now: Time) -> Self {
        VirtualClock { time: VirtualTime::default(), measured: (now, VirtualTime::default()), pace: None }
    }

    /// Notes that a request whose slice begins at `tag` is served at `now`.
    pub(crate) fn advance(&mut self, now: Time, tag: VirtualTime) {
        self.time = self.time.max(tag);
        let (at, then) = self.measured;
        let passed = now.since(at).secs();
        if self.time == then || passed < WINDOW.secs() / 30.0 {
            return;
        }
        let latest = passed / self.time.since(then).secs();
        let weight = passed / (passed + WINDOW.secs());
        self.pace = Some(self.pace.map_or(latest, |pace| pace + (latest - pace) * weight));
        self.measured = (now, self.time);
    }

    /// Sets the clock. The time until now, while no request was held, does not count in the pace.
    pub(crate) fn restart(&mut self, now: Time, time: VirtualTime) {
        (self.time, self.measured) = (time, (now, time));
    }

    /// Sets the clock. The time until now, while requests were held for other limits, counts in the
    /// pace.
    pub(crate) fn catch_up(&mut self, time: VirtualTime) {
        self.time = time;
    }

    /// How long the clock takes to advance by `distance`.
    pub(crate) fn time_for(&self, distance: Span) -> Span {
        Span::from_nanos((distance.nanos() as f64 * self.pace.unwrap_or_default()) as u64)
    }
}

//! A clock of a line, and how fast it runs.

use super::virtual_time::VirtualTime;
use rampmeter_protocol::time::{Span, Time};

/// Over how long the pace is averaged: long enough for a round of many clients, short enough to follow the load.
const WINDOW: Span = Span::from_secs(120);

/// Shows where the requests begin that are served now. Its pace is virtual time per time, averaged with exponentially falling
/// weights: requests that will come and go first are in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VirtualClock {
    pub(crate) shows: VirtualTime,
    /// When the pace was last taken, and what the clock showed.
    taken: (Time, VirtualTime),
    /// Nanoseconds of virtual time in a nanosecond; none before the first window is over.
    pace: Option<f64>,
}

impl VirtualClock {
    pub(crate) fn new(now: Time) -> Self {
        VirtualClock { shows: VirtualTime::default(), taken: (now, VirtualTime::default()), pace: None }
    }

    /// A request that begins at `tag` is served at `now`.
    pub(crate) fn advance(&mut self, now: Time, tag: VirtualTime) {
        self.shows = self.shows.max(tag);
        let (at, showed) = self.taken;
        let passed = now.since(at).secs();
        if self.shows == showed || passed < WINDOW.secs() / 30.0 {
            return;
        }
        let latest = self.shows.since(showed).secs() / passed;
        let weight = passed / (passed + WINDOW.secs());
        self.pace = Some(self.pace.map_or(latest, |pace| pace + (latest - pace) * weight));
        self.taken = (now, self.shows);
    }

    /// Shows something else. The time until now, in which no request was held, is no part of the pace.
    pub(crate) fn restart(&mut self, now: Time, shows: VirtualTime) {
        (self.shows, self.taken) = (shows, (now, shows));
    }

    /// How long it takes for `distance`, if its pace is known.
    pub(crate) fn time_for(&self, distance: Span) -> Option<Span> {
        let pace = self.pace.filter(|pace| *pace > 0.0)?;
        Some(Span::from_nanos((distance.secs() / pace * 1e9) as u64))
    }
}

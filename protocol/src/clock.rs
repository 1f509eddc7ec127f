//! The one place that asks what time it is.

use crate::time::{Span, Time};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock whose origin is the moment it was made.
///
/// Drivers hold one and pass [`Clock::now`] down; nothing below a driver has a clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that reads [`Time::ORIGIN`] now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the clock itself")]
    pub fn start() -> Self {
        Clock { origin: Instant::now() }
    }

    /// The time on this clock. Never goes back.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::ORIGIN + Span::from(self.origin.elapsed())
    }

    /// `time` of this clock for timers that want the standard library's instants.
    #[must_use]
    pub fn instant(&self, time: Time) -> Instant {
        let ahead = Duration::from_nanos(time.nanos());
        self.origin.checked_add(ahead).unwrap_or(self.origin + Duration::from_secs(86_400 * 366))
    }
}

/// Wall time in milliseconds since 1970, for marks that outlive a process. It may step either way.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one reader of wall time")]
pub fn unix_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

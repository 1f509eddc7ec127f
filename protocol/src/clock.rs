//! The clock of schedulers and workers, the only code of theirs that reads the time.

use crate::bounds::MAX_MILLIS;
use crate::time::{NANOS_PER_MILLI, Span, Time};
use crate::wall_clock::WallClockOrigin;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock. Drivers hold one and pass [`Clock::now`] down. It starts a year after [`Time::ORIGIN`], so that
/// earlier events, such as the last save of a former process, have a [`Time`] too.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// The reading of a new clock.
    pub const START: Time = Time::from_nanos(MAX_MILLIS as u64 * NANOS_PER_MILLI);

    /// Starts a clock that reads [`Clock::START`].
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the clock itself")]
    pub fn start() -> Self {
        Clock { started: Instant::now() }
    }

    /// Returns the time on this clock, which never goes back.
    #[must_use]
    pub fn now(&self) -> Time {
        Self::START + Span::from(self.started.elapsed())
    }

    /// Converts `time` for timers that take the standard library's instants. A past time is due at
    /// once; one that the platform cannot represent becomes a year from the start.
    #[must_use]
    pub fn instant(&self, time: Time) -> Instant {
        let ahead = time.since(Self::START).duration();
        self.started.checked_add(ahead).unwrap_or(self.started + Self::START.since(Time::ORIGIN).duration())
    }
}

/// Reads this machine's wall clock, which may step, at the origin of a clock that reads `now`.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "wall time is read here")]
pub fn wall_clock_origin(now: Time) -> WallClockOrigin {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallClockOrigin::of(now, u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns the milliseconds since 1970 by the wall clock, which may step either way.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "wall time is read here")]
pub fn unix_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

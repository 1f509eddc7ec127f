//! The clock of schedulers and workers. None of their other code asks for the time.

use crate::bounds::MAX_MILLIS;
use crate::time::{NANOS_PER_MILLI, Span, Time};
use crate::wall_clock::WallClockOrigin;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock. Drivers hold one and pass [`Clock::now`] down; nothing below a driver has
/// a clock.
///
/// It starts a year after [`Time::ORIGIN`]. Earlier events, such as a request's first attempt or
/// the last save of a former process, therefore have a [`Time`] too.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// What a new clock reads.
    pub const START: Time = Time::from_nanos(MAX_MILLIS as u64 * NANOS_PER_MILLI);

    /// A clock that reads [`Clock::START`] now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the clock itself")]
    pub fn start() -> Self {
        Clock { started: Instant::now() }
    }

    /// The time on this clock. Never goes back.
    #[must_use]
    pub fn now(&self) -> Time {
        Self::START + Span::from(self.started.elapsed())
    }

    /// `time` of this clock for timers that use the standard library's instants. A time in the past
    /// is due at once. A time that the platform cannot represent becomes a year from the start.
    #[must_use]
    pub fn instant(&self, time: Time) -> Instant {
        let ahead = time.since(Self::START).duration();
        self.started.checked_add(ahead).unwrap_or(self.started + Self::START.since(Time::ORIGIN).duration())
    }
}

/// This machine's wall clock at the origin of a clock that reads `now`. It may step either way.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "wall time is read here")]
pub fn wall_clock_origin(now: Time) -> WallClockOrigin {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallClockOrigin::of(now, u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX))
}

/// Wall time in milliseconds since 1970, for timestamps that outlive a process. It may step either
/// way.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "wall time is read here")]
pub fn unix_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

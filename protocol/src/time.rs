//! Instants and durations as plain numbers, so that time can be an argument.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Nanoseconds in a millisecond.
pub const NANOS_PER_MILLI: u64 = 1_000_000;

/// An instant on a monotonic clock, in nanoseconds since its driver's origin; those of different drivers do not
/// compare. Messages carry spans; only stamps such as [`Granted::at_ms`](crate::answer::Granted::at_ms) are instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A duration in nanoseconds, as records store it. Messages use [`Millis`](crate::millis::Millis).
///
/// ```
/// use rampmeter_protocol::time::{Span, Time};
/// let start = Time::ORIGIN + Span::from_millis(1500);
/// assert_eq!(start.since(Time::ORIGIN), Span::from_millis(1500));
/// assert_eq!(Time::ORIGIN.since(start), Span::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(u64);

impl Time {
    /// The origin of a driver's clock.
    pub const ORIGIN: Time = Time(0);
    /// Later than any event.
    pub const NEVER: Time = Time(u64::MAX);

    /// Creates the instant `nanos` after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// Returns the nanoseconds since the origin.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this instant; zero if this instant is before `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// Creates a span of nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Span(nanos)
    }

    /// Creates a span of milliseconds; saturates after 584 years.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Span(millis.saturating_mul(NANOS_PER_MILLI))
    }

    /// Creates a span of seconds; saturates after 584 years.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Span(secs.saturating_mul(1000 * NANOS_PER_MILLI))
    }

    /// Returns the span in nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the span in milliseconds with a fraction, as in messages.
    #[must_use]
    pub fn millis(self) -> f64 {
        self.0 as f64 / NANOS_PER_MILLI as f64
    }

    /// Returns the span in seconds with a fraction, as in metrics.
    #[must_use]
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Converts the span for timers of the standard library and of runtimes.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Returns this span minus `other`; zero if `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add<Span> for Time {
    type Output = Time;

    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Time;

    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Span;

    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Span {
    /// Takes a precision, as in `{span:.1}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.duration(), f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{:?}", Duration::from_nanos(self.0))
    }
}

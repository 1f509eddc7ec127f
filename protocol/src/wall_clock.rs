//! Wall clocks as plain numbers, so that wall time can be an argument too.

use crate::time::Time;

/// The wall-clock time of a driver's origin of time, in nanoseconds since 1970.
///
/// ```
/// use rampmeter_protocol::{time::{Span, Time}, wall_clock::WallClockOrigin};
/// let ten = Time::ORIGIN + Span::from_nanos(10);
/// let origin = WallClockOrigin::of(ten, 1_000_010);
/// assert_eq!(origin, WallClockOrigin::from_unix_nanos(1_000_000));
/// assert_eq!(origin.unix_nanos(ten), 1_000_010);
/// assert_eq!(origin.time_of(1_000_010), ten);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallClockOrigin(u64);

impl WallClockOrigin {
    /// An origin at the beginning of 1970.
    pub const UNIX_EPOCH: WallClockOrigin = WallClockOrigin(0);

    /// Creates an origin at `unix_nanos` since 1970.
    #[must_use]
    pub const fn from_unix_nanos(unix_nanos: u64) -> Self {
        WallClockOrigin(unix_nanos)
    }

    /// Returns the origin for which `time` is `unix_nanos` since 1970; at the earliest 1970.
    #[must_use]
    pub const fn of(time: Time, unix_nanos: u64) -> Self {
        WallClockOrigin(unix_nanos.saturating_sub(time.nanos()))
    }

    /// Returns the exact wall time of `time` in nanoseconds since 1970, so that windows are exact.
    #[must_use]
    pub fn unix_nanos(self, time: Time) -> u128 {
        u128::from(self.0) + u128::from(time.nanos())
    }

    /// Returns when the wall clock shows `unix_nanos` since 1970, saturating at both ends.
    #[must_use]
    pub fn time_of(self, unix_nanos: u128) -> Time {
        Time::from_nanos(u64::try_from(unix_nanos.saturating_sub(u128::from(self.0))).unwrap_or(u64::MAX))
    }

    /// Returns by how many nanoseconds this wall clock is ahead of `other`; negative if behind.
    #[must_use]
    pub fn nanos_ahead_of(self, other: WallClockOrigin) -> i128 {
        i128::from(self.0) - i128::from(other.0)
    }
}

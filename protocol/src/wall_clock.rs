//! What wall clocks show, as plain numbers, so that wall time can be an argument too.

use crate::time::Time;

/// The wall clock at the origin of time, in nanoseconds since 1970.
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
    /// Time begins with 1970.
    pub const UNIX_EPOCH: WallClockOrigin = WallClockOrigin(0);

    /// The wall clock shows `unix_nanos` since 1970 at the origin of time.
    #[must_use]
    pub const fn from_unix_nanos(unix_nanos: u64) -> Self {
        WallClockOrigin(unix_nanos)
    }

    /// The wall clock shows `unix_nanos` since 1970 at `time`. An origin before 1970 becomes 1970.
    #[must_use]
    pub const fn of(time: Time, unix_nanos: u64) -> Self {
        WallClockOrigin(unix_nanos.saturating_sub(time.nanos()))
    }

    /// What the wall clock shows at `time`, in nanoseconds since 1970. Exact for all times, so that
    /// windows are too.
    #[must_use]
    pub fn unix_nanos(self, time: Time) -> u128 {
        u128::from(self.0) + u128::from(time.nanos())
    }

    /// When the wall clock shows `unix_nanos` since 1970. Saturates at both ends of time.
    #[must_use]
    pub fn time_of(self, unix_nanos: u128) -> Time {
        Time::from_nanos(u64::try_from(unix_nanos.saturating_sub(u128::from(self.0))).unwrap_or(u64::MAX))
    }

    /// By how many nanoseconds this wall clock is ahead of another one. Negative if it is behind.
    ///
    /// ```
    /// use rampmeter_protocol::wall_clock::WallClockOrigin;
    /// let [early, late] = [1_000, 3_000].map(WallClockOrigin::from_unix_nanos);
    /// assert_eq!((late.nanos_ahead_of(early), early.nanos_ahead_of(late)), (2_000, -2_000));
    /// ```
    #[must_use]
    pub fn nanos_ahead_of(self, other: WallClockOrigin) -> i128 {
        i128::from(self.0) - i128::from(other.0)
    }
}

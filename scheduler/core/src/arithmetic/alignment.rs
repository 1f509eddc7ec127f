//! When the windows of a limit begin.

use jiff::tz::TimeZone;

/// When windows begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Alignment {
    /// At multiples of the period since 1970.
    #[default]
    Epoch,
    /// With the first call after the end of the window before. A sliding window of the same length
    /// never admits more, so the limit is counted as a sliding window.
    FirstUse,
    /// Every midnight of a time zone.
    Day(TimeZone),
    /// At the first midnight of every month of a time zone.
    Month(TimeZone),
}

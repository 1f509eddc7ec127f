//! The alignment of fixed windows.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;

/// When windows begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Alignment {
    /// At multiples of the period since 1970.
    #[default]
    Epoch,
    /// With the first call after the last window. A sliding window never admits more, so the limit is counted as one.
    FirstUse,
    /// At every midnight of a time zone.
    Day(TimeZone),
    /// At the first midnight of every month of a time zone.
    Month(TimeZone),
}

/// The bounds of windows that follow the wall clock.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowAlignment {
    /// How time is cut; `None` means one window for ever.
    pub alignment: Option<Alignment>,
    /// The length of a periodic window.
    pub length: Span,
    /// The distance of starts from both ends, as calls arrive late and clocks differ.
    pub guard: Span,
    /// The distance from ends that the upstream reported, for which clocks do not matter.
    pub reported_guard: Span,
}

/// The time from `starts` on and before `ends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it begins.
    pub starts: Time,
    /// When the next one begins.
    pub ends: Time,
}

impl Window {
    /// Returns whether `time` lies in the window.
    #[must_use]
    pub fn contains(self, time: Time) -> bool {
        self.starts <= time && time < self.ends
    }

    /// Returns the length of the window.
    #[must_use]
    pub fn length(self) -> Span {
        self.ends.since(self.starts)
    }
}

impl WindowAlignment {
    /// Returns the window of `time`.
    pub fn window(&self, wall_clock: WallClockOrigin, time: Time) -> Window {
        let unix = wall_clock.unix_nanos(time);
        let bounds = match &self.alignment {
            None | Some(Alignment::FirstUse) => None,
            Some(Alignment::Epoch) => {
                let length = u128::from(self.length.nanos());
                Some([unix / length * length, (unix / length + 1) * length])
            }
            Some(Alignment::Day(zone)) => calendar(unix, zone, day),
            Some(Alignment::Month(zone)) => calendar(unix, zone, month),
        };
        // A time beyond the calendar lies in one window for ever.
        let [starts, ends] =
            bounds.map_or([Time::ORIGIN, Time::NEVER], |bounds| bounds.map(|at| wall_clock.time_of(at)));
        Window { starts, ends }
    }

    /// Returns whether all windows are as long as the period.
    #[must_use]
    pub fn is_periodic(&self) -> bool {
        self.alignment == Some(Alignment::Epoch)
    }
}

/// Returns the bounds of the calendar window around `unix`. Its length is up to the time zone.
fn calendar(
    unix: u128,
    zone: &TimeZone,
    bounds: impl Fn(&Zoned) -> Result<[Zoned; 2], jiff::Error>,
) -> Option<[u128; 2]> {
    let at = Timestamp::from_nanosecond(i128::try_from(unix).ok()?).ok()?;
    let nanos = |at: Zoned| u128::try_from(at.timestamp().as_nanosecond()).unwrap_or(0);
    Some(bounds(&at.to_zoned(zone.clone())).ok()?.map(nanos))
}

fn day(at: &Zoned) -> Result<[Zoned; 2], jiff::Error> {
    Ok([at.start_of_day()?, at.tomorrow()?.start_of_day()?])
}

fn month(at: &Zoned) -> Result<[Zoned; 2], jiff::Error> {
    let first = at.first_of_month()?;
    Ok([first.start_of_day()?, first.checked_add(1.month())?.start_of_day()?])
}

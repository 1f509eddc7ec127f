//! How time is cut into fixed windows.

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
    /// With the first call after the end of the window before. A sliding window of the same length
    /// never admits more, so the limit is counted as a sliding window.
    FirstUse,
    /// Every midnight of a time zone.
    Day(TimeZone),
    /// At the first midnight of every month of a time zone.
    Month(TimeZone),
}

/// The bounds of windows that follow the wall clock.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowAlignment {
    /// How time is cut; none means one window for ever.
    pub alignment: Option<Alignment>,
    /// The length of a periodic window.
    pub length: Span,
    /// Starts stay this far from both ends of a window, because calls arrive later than they start
    /// and clocks differ.
    pub guard: Span,
    /// The same for ends that the upstream reported. The difference of clocks does not matter for
    /// these.
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
    /// Whether `time` lies in it.
    #[must_use]
    pub fn contains(self, time: Time) -> bool {
        self.starts <= time && time < self.ends
    }

    /// How long it lasts.
    #[must_use]
    pub fn length(self) -> Span {
        self.ends.since(self.starts)
    }
}

impl WindowAlignment {
    /// The window that `time` is in.
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

    /// Whether all windows are as long as the period.
    #[must_use]
    pub fn is_periodic(&self) -> bool {
        self.alignment == Some(Alignment::Epoch)
    }
}

/// The bounds of the calendar window around `unix`. The time zone's law decides how long a day is.
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

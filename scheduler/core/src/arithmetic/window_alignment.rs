//! How time is cut into fixed windows.

use super::alignment::Alignment;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;

/// The bounds of windows that follow the wall clock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowAlignment {
    /// How time is cut; none means one window for ever.
    alignment: Option<Alignment>,
    length: Span,
    wall_clock: WallClockOrigin,
    /// Starts stay this far from both ends of a window, because calls arrive later than they start
    /// and clocks differ.
    guard: Span,
    /// The same for ends that the upstream reported. The difference of clocks does not matter for
    /// these.
    reported_guard: Span,
}

/// The time from `starts` on and before `ends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) starts: Time,
    pub(crate) ends: Time,
}

impl Window {
    pub(crate) fn contains(self, time: Time) -> bool {
        self.starts <= time && time < self.ends
    }

    pub(crate) fn length(self) -> Span {
        self.ends.since(self.starts)
    }
}

impl WindowAlignment {
    /// None for windows that begin with their first call.
    pub(crate) fn new(
        alignment: Option<&Alignment>,
        length: Span,
        wall_clock: WallClockOrigin,
        (guard, reported_guard): (Span, Span),
    ) -> Option<Self> {
        let alignment = alignment.cloned();
        (alignment != Some(Alignment::FirstUse)).then_some(WindowAlignment {
            alignment,
            length,
            wall_clock,
            guard,
            reported_guard,
        })
    }

    /// These windows by another wall clock.
    pub(crate) fn with_wall_clock(self, wall_clock: WallClockOrigin) -> Self {
        WindowAlignment { wall_clock, ..self }
    }

    /// The window that `time` is in.
    pub(crate) fn window(&self, time: Time) -> Window {
        let unix = self.wall_clock.unix_nanos(time);
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
            bounds.map_or([Time::ORIGIN, Time::NEVER], |bounds| bounds.map(|at| self.wall_clock.time_of(at)));
        Window { starts, ends }
    }

    /// Whether all windows are as long as the period.
    pub(crate) fn is_periodic(&self) -> bool {
        self.alignment == Some(Alignment::Epoch)
    }

    /// How far starts stay from a window's ends. `are_reported` tells whether the upstream reported
    /// these ends.
    pub(crate) fn guard(&self, are_reported: bool) -> Span {
        if are_reported { self.reported_guard } else { self.guard }
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

//! How time is cut into windows.

use crate::policy::Alignment;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use rampmeter_protocol::time::{Span, Time};

/// Where windows begin and end that the wall clock cuts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowAlignment {
    /// By what time is cut. If by nothing, there is one window for ever.
    alignment: Option<Alignment>,
    length: Span,
    /// What the wall clock showed at the origin of time, in nanoseconds since 1970.
    unix_at_origin: u64,
    /// How far from a window's ends starts stay away, because calls arrive later than they start and clocks differ.
    guard: Span,
}

/// From its start on, and before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) starts: Time,
    pub(crate) ends: Time,
}

impl Window {
    pub(crate) fn has(self, time: Time) -> bool {
        self.starts <= time && time < self.ends
    }

    pub(crate) fn length(self) -> Span {
        self.ends.since(self.starts)
    }
}

impl WindowAlignment {
    /// How windows are cut that begin so; none where they begin when they are first used.
    pub(crate) fn new(alignment: Option<&Alignment>, length: Span, unix_at_origin: u64, guard: Span) -> Option<Self> {
        let alignment = alignment.cloned();
        (alignment != Some(Alignment::FirstUse)).then_some(WindowAlignment { alignment, length, unix_at_origin, guard })
    }

    /// The same when the wall clock showed something else at the origin of time.
    pub(crate) fn at_unix(self, unix_at_origin: u64) -> Self {
        WindowAlignment { unix_at_origin, ..self }
    }

    /// The window that `time` is in.
    pub(crate) fn window(&self, time: Time) -> Window {
        let unix = u128::from(self.unix_at_origin) + u128::from(time.nanos());
        let bounds = match &self.alignment {
            None | Some(Alignment::FirstUse) => None,
            Some(Alignment::Epoch) => {
                let length = u128::from(self.length.nanos());
                Some([unix / length * length, (unix / length + 1) * length])
            }
            Some(Alignment::Day(zone)) => calendar(unix, zone, day),
            Some(Alignment::Month(zone)) => calendar(unix, zone, month),
        };
        // What no calendar has is one window for ever.
        let [starts, ends] = bounds.map_or([Time::ORIGIN, Time::NEVER], |bounds| bounds.map(|at| self.at(at)));
        Window { starts, ends }
    }

    /// How far from a window's ends starts stay away.
    pub(crate) fn guard(&self) -> Span {
        self.guard
    }

    /// What was before the origin was then.
    fn at(&self, unix: u128) -> Time {
        Time::from_nanos(u64::try_from(unix.saturating_sub(u128::from(self.unix_at_origin))).unwrap_or(u64::MAX))
    }
}

/// The bounds of the window that `unix` is in. A time zone's days are 23 to 25 hours long, or whatever its law says.
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

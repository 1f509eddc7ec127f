//! How time is cut into windows.

use crate::spec::Alignment;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use rampmeter_protocol::time::{Span, Time};

/// Where windows begin and end that the wall clock cuts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    cut: Cut,
    length: Span,
    /// What the wall clock showed at the origin of time, in nanoseconds since 1970.
    unix_at_origin: u64,
    /// How far from a window's ends starts stay away, because calls arrive later than they start and clocks differ.
    guard: Span,
}

/// By what time is cut.
#[derive(Clone, Debug, PartialEq)]
enum Cut {
    /// By nothing: there is one window for ever.
    Never,
    Epoch,
    Day(TimeZone),
    Month(TimeZone),
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

    /// The only one.
    const FOR_EVER: Window = Window { starts: Time::ORIGIN, ends: Time::NEVER };
}

impl Frame {
    /// How windows are cut that begin so; none where they begin when they are first used.
    pub(crate) fn new(alignment: Option<&Alignment>, length: Span, unix_at_origin: u64, guard: Span) -> Option<Self> {
        let cut = match alignment {
            None => Cut::Never,
            Some(Alignment::FirstUse) => return None,
            Some(Alignment::Epoch) => Cut::Epoch,
            Some(Alignment::Day(zone)) => Cut::Day(zone.clone()),
            Some(Alignment::Month(zone)) => Cut::Month(zone.clone()),
        };
        Some(Frame { cut, length, unix_at_origin, guard })
    }

    /// The same when the wall clock showed something else at the origin of time.
    pub(crate) fn at_unix(self, unix_at_origin: u64) -> Self {
        Frame { unix_at_origin, ..self }
    }

    /// The window that `time` is in.
    pub(crate) fn window(&self, time: Time) -> Window {
        match &self.cut {
            Cut::Never => Window::FOR_EVER,
            Cut::Epoch => self.since_epoch(time),
            Cut::Day(zone) => self.calendar(
                time,
                |at| Some((at.start_of_day().ok()?, at.tomorrow().ok()?.start_of_day().ok()?)),
                zone,
            ),
            Cut::Month(zone) => self.calendar(
                time,
                |at| {
                    let first = at.first_of_month().ok()?;
                    Some((
                        first.start_of_day().ok()?,
                        first.checked_add(jiff::Span::new().months(1)).ok()?.start_of_day().ok()?,
                    ))
                },
                zone,
            ),
        }
    }

    /// How far from a window's ends starts stay away.
    pub(crate) fn guard(&self) -> Span {
        self.guard
    }

    fn since_epoch(&self, time: Time) -> Window {
        let (unix, length) =
            (u128::from(self.unix_at_origin) + u128::from(time.nanos()), u128::from(self.length.nanos()));
        let starts = unix / length * length;
        Window { starts: self.at(starts), ends: self.at(starts + length) }
    }

    /// A time zone's days are 23 to 25 hours long, or whatever its law says. What no calendar has is one window for ever.
    fn calendar(&self, time: Time, bounds: impl Fn(&Zoned) -> Option<(Zoned, Zoned)>, zone: &TimeZone) -> Window {
        let unix = i128::from(self.unix_at_origin) + i128::from(time.nanos());
        let found = Timestamp::from_nanosecond(unix).ok().and_then(|at| bounds(&at.to_zoned(zone.clone())));
        let nanos = |at: &Zoned| u128::try_from(at.timestamp().as_nanosecond()).unwrap_or(0);
        match found {
            Some((starts, ends)) => Window { starts: self.at(nanos(&starts)), ends: self.at(nanos(&ends)) },
            None => Window::FOR_EVER,
        }
    }

    /// What was before the origin was then.
    fn at(&self, unix: u128) -> Time {
        Time::from_nanos(u64::try_from(unix.saturating_sub(u128::from(self.unix_at_origin))).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Unit;

    const SECOND: u64 = 1_000_000_000;

    /// The windows of a zone's calendar are those of jiff's own calendar of 2024 to 2035: nothing between them, nothing twice.
    #[test]
    fn days_and_months_of_twenty_zones_follow_each_other() {
        let zones = [
            "UTC",
            "Europe/Berlin",
            "Europe/London",
            "Europe/Lisbon",
            "Europe/Moscow",
            "America/New_York",
            "America/Chicago",
            "America/Los_Angeles",
            "America/St_Johns",
            "America/Sao_Paulo",
            "America/Santiago",
            "Africa/Cairo",
            "Africa/Casablanca",
            "Asia/Tehran",
            "Asia/Kolkata",
            "Asia/Kathmandu",
            "Asia/Tokyo",
            "Australia/Lord_Howe",
            "Pacific/Chatham",
            "Pacific/Apia",
        ];
        let [from, until] = ["2024-01-01T00:00:00Z", "2036-01-01T00:00:00Z"].map(|at| at.parse::<Timestamp>().unwrap());
        let unix = u64::try_from(from.as_nanosecond()).unwrap();
        let end = Time::from_nanos(u64::try_from(until.as_nanosecond()).unwrap() - unix);
        for zone in zones.map(|name| TimeZone::get(name).unwrap()) {
            for (alignment, unit) in
                [(Alignment::Day(zone.clone()), Unit::Day), (Alignment::Month(zone.clone()), Unit::Month)]
            {
                let frame = Frame::new(Some(&alignment), Span::from_secs(1), unix, Span::ZERO).unwrap();
                let mut time = Time::ORIGIN + Span::from_secs(2 * 86_400);
                while time < end {
                    let window = frame.window(time);
                    assert!(window.has(time) && frame.window(window.starts) == window, "{zone:?} {unit:?} {time}");
                    let last = window.ends - Span::from_nanos(1);
                    assert_eq!(frame.window(last), window, "{zone:?} {unit:?} {time}");
                    let next = frame.window(window.ends);
                    assert_eq!(next.starts, window.ends, "{zone:?} {unit:?} {time}");
                    let civil = |time: Time| {
                        Timestamp::from_nanosecond(i128::from(unix) + i128::from(time.nanos()))
                            .unwrap()
                            .to_zoned(zone.clone())
                            .date()
                    };
                    let next_day = civil(window.ends);
                    if unit == Unit::Day {
                        assert!(civil(last) == civil(window.starts) && next_day != civil(last));
                    } else {
                        assert!(civil(last).month() == civil(window.starts).month() && next_day.day() == 1);
                    }
                    time = window.ends;
                }
            }
        }
    }

    #[test]
    fn windows_since_the_epoch() {
        let frame =
            Frame::new(Some(&Alignment::Epoch), Span::from_secs(10), 1_795_000_003 * SECOND, Span::ZERO).unwrap();
        let window = |starts: u64, ends: u64| Window {
            starts: Time::from_nanos(starts * SECOND),
            ends: Time::from_nanos(ends * SECOND),
        };
        for (at, expected) in [(0, window(0, 7)), (6, window(0, 7)), (7, window(7, 17)), (17, window(17, 27))] {
            assert_eq!(frame.window(Time::from_nanos(at * SECOND)), expected, "at {at} s");
        }
    }
}

//! Windows that follow a calendar.

use crate::prelude::*;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

const ZONES: [&str; 20] = [
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

/// What the wall clock shows at the origin of time.
const ORIGIN: &str = "2024-01-01T00:00:00Z";
const NANOSECOND: Span = Span::from_nanos(1);

/// Ten in each window.
fn aligned(alignment: Alignment) -> World {
    let algorithm = Algorithm::FixedWindow(alignment);
    let unix = u64::try_from(ORIGIN.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap();
    let resource = Resource::new(&ten(algorithm)).unwrap().with_wall_clock(WallClockOrigin::from_unix_nanos(unix));
    World::of(Scheduler::new(resource, Epoch::FIRST, Time::ORIGIN))
}

/// The first instant of a date.
fn begins(date: Date, zone: &TimeZone) -> Time {
    let ahead = date.to_zoned(zone.clone()).unwrap().timestamp().duration_since(ORIGIN.parse().unwrap());
    Time::from_nanos(u64::try_from(ahead.as_nanos()).unwrap())
}

/// Whether a whole window is available at this time.
fn has_all(world: &mut World, now: Time) -> bool {
    let request = world.ask(now, &wish(Mode::Allow, &[("requests", 10.0)]));
    let start = world.start(request);
    world.answers.clear();
    start == Some(now)
}

/// Checks that a whole window becomes available exactly when each date begins, and not a nanosecond
/// before.
fn check(alignment: Alignment, zone: &TimeZone, dates: impl Iterator<Item = Date>) {
    let mut world = aligned(alignment.clone());
    for (number, date) in dates.enumerate() {
        let at = begins(date, zone);
        assert!(number == 0 || !has_all(&mut world, at - NANOSECOND), "{alignment:?}: before {date}");
        assert!(has_all(&mut world, at), "{alignment:?}: {date}");
    }
}

#[test]
fn days_and_months_of_twenty_zones_follow_each_other() {
    let first = jiff::civil::date(2024, 2, 1);
    for zone in ZONES.map(|name| TimeZone::get(name).unwrap()) {
        // A date that a zone skips begins at the same instant as the next one, and is left out.
        let dates = (0..12 * 365)
            .map(|number| first + number.days())
            .filter(|date| begins(*date, &zone) < begins(date.tomorrow().unwrap(), &zone));
        check(Alignment::Day(zone.clone()), &zone, dates);
        check(Alignment::Month(zone.clone()), &zone, (0..12 * 12).map(|number| first + number.months()));
    }
}

//! Values of headers in the notations of upstreams.

use jiff::civil::DateTime;
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::TimeZone;
use jiff::{SpanTotal, Timestamp, ToSpan, Unit};
use rampmeter_policy::observation::Reading;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::bounds::{MAX_AMOUNT, MAX_MILLIS};
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::time::Span;

/// Moments since 1970 by their size: the least number, and its unit in milliseconds. They begin in
/// 2001 (seconds) and 1973. A smaller number counts from now.
const EPOCHS: [(f64, f64); 4] = [(1e17, 1e-6), (1e14, 1e-3), (1e11, 1.0), (1e9, 1e3)];
/// Numbers from here on are not moments: the year 5138 in nanoseconds.
const NO_MOMENT: f64 = 1e20;
/// Dates that RFC 9110 still allows, and those of JavaScript and of programs that omit the zone.
const DATES: [&str; 5] =
    ["%d-%b-%y %H:%M:%S", "%a %b %d %H:%M:%S %Y", "%d %b %Y %H:%M:%S", "%a %d %b %Y %H:%M:%S", "%d-%b-%Y %H:%M:%S"];
const JAVASCRIPT_DATE: &str = "%a %b %d %Y %H:%M:%S gmt%z";
const UTC: [&str; 4] = ["gmt", "utc", "z", "+0000"];
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// The time until something happens, as a header states it.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Wait {
    pub(crate) span: Span,
    /// How far it may be off.
    pub(crate) grain: Span,
}

/// The amount in a header, with the length of its window if stated: `76;w=21600`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) number: f64,
    pub(crate) window: Option<Span>,
}

/// Parses a number: digits, possibly with a sign and a fraction.
pub(crate) fn number(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain)
}

/// The figures of a list. Repeated headers and a second proxy join values by commas.
pub(crate) fn figures(text: &str) -> impl Iterator<Item = Figure> {
    text.split(',').filter_map(|part| {
        let mut params = part.split(';').map(|param| param.trim().trim_matches('"'));
        let number = number(params.next()?)?;
        let window = params.find_map(|param| param.strip_prefix("w=")).and_then(self::number);
        Some(Figure { number, window: window.and_then(|seconds| span(seconds * 1e3)) })
    })
}

/// Returns the longest wait of a list of numbers in `unit_ms` or since 1970, durations, or moments
/// by a clock that shows `unix_ms`. A past moment is a zero wait. `None` if nothing can be parsed.
pub(crate) fn wait(text: &str, unit_ms: f64, unix_ms: u64) -> Option<Wait> {
    let lower = text.to_ascii_lowercase();
    let parts = lower.split(',').map(|part| part.split(';').next().unwrap_or_default().trim().trim_matches('"'));
    let waits = parts.filter_map(|part| one_wait(part, unit_ms, unix_ms));
    waits.max_by_key(|wait| wait.span)
}

fn one_wait(text: &str, unit_ms: f64, unix_ms: u64) -> Option<Wait> {
    let until = |moment_ms: f64| Some(Wait { span: until(moment_ms, unix_ms)?, grain: Reading::grain_of(None) });
    let exactly = |span: Span| Wait { span, grain: Reading::grain_of(Some(span)) };
    match number(text) {
        Some(number) => match epoch_ms(number, unit_ms) {
            Some(moment_ms) => until(moment_ms),
            None => span(number * unit_ms).map(exactly),
        },
        None => duration(text).map(exactly).or_else(|| until(moment(text)? as f64)),
    }
}

/// The moment that a large number means. Only a number that counts seconds may be one in seconds.
fn epoch_ms(number: f64, unit_ms: f64) -> Option<f64> {
    let epoch = EPOCHS.into_iter().find(|(from, _)| *from <= number && number < NO_MOMENT)?;
    (epoch.1 <= 1.0 || unit_ms >= 1e3).then_some(number * epoch.1)
}

/// Parses `6m0s`, `120 ms`, `2 seconds`, `PT30S` or `00:01:30`.
fn duration(text: &str) -> Option<Span> {
    let parsed: jiff::Span = text.parse().ok()?;
    span(parsed.total(SpanTotal::from(Unit::Millisecond).days_are_24_hours()).ok()?)
}

/// Parses a date of HTTP or RFC 3339 into Unix ms, with the usual slips and any day of the week.
pub(crate) fn moment(text: &str) -> Option<i64> {
    let text = text.to_ascii_lowercase();
    let text = text.split_once(',').filter(|(day, _)| is_day(day)).map_or(&*text, |(_, date)| date).trim();
    let stated = text.parse::<Timestamp>().ok();
    let stated = stated.or_else(|| rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok());
    Some(stated.or_else(|| javascript(text)).or_else(|| in_utc(text))?.as_millisecond())
}

fn is_day(text: &str) -> bool {
    DAYS.iter().any(|day| text.trim().starts_with(day)) && text.trim().bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Parses `Wed Oct 21 2026 09:28:00 GMT+0200 (Central European Summer Time)`.
fn javascript(text: &str) -> Option<Timestamp> {
    let date = text.split('(').next()?.trim();
    strtime::parse(JAVASCRIPT_DATE, date).ok()?.to_timestamp().ok()
}

fn in_utc(text: &str) -> Option<Timestamp> {
    let date = UTC.iter().find_map(|zone| text.strip_suffix(zone)).unwrap_or(text).trim();
    let of_http = || DATES.iter().find_map(|format| strtime::parse(format, date).ok()?.to_datetime().ok());
    let date: DateTime = date.parse().ok().or_else(of_http)?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

pub(crate) fn until_next_month(unix_ms: u64) -> Option<Span> {
    let now = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
    let first = now.to_zoned(TimeZone::UTC).date().first_of_month();
    let next = first.checked_add(1.month()).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    until(next.as_millisecond() as f64, unix_ms)
}

fn until(moment_ms: f64, unix_ms: u64) -> Option<Span> {
    span(moment_ms - unix_ms as f64)
}

/// The rest of a bucket: rounded down to a millionth, at least zero, at most the largest amount.
pub(crate) fn left(units: f64) -> Option<Amount> {
    let units = units.clamp(0.0, MAX_AMOUNT as f64);
    let rounded_down = |above: Amount| Amount::from_micros(above.micros().saturating_sub(1));
    Amount::new(units).or_else(|_| Amount::round_up(units).and_then(rounded_down)).ok()
}

/// A cost, rounded up to a millionth.
pub(crate) fn spent(units: f64) -> Option<Amount> {
    Amount::round_up(units).ok()
}

/// A used amount, rounded up to a millionth. A negative one is zero.
pub(crate) fn used(units: f64) -> Option<Amount> {
    spent(units.clamp(0.0, MAX_AMOUNT as f64))
}

/// A span rounded up to a nanosecond: at least zero, at most what a message can carry.
pub(crate) fn span(millis: f64) -> Option<Span> {
    Millis::new(millis.clamp(0.0, MAX_MILLIS)).ok().map(Millis::span)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wed, 21 Oct 2026 07:28:00 GMT
    const NOW: u64 = 1_792_567_680_000;

    #[test]
    fn numbers_have_digits_a_sign_and_a_point() {
        for (text, value) in
            [("0", 0.0), ("42", 42.0), ("0.25", 0.25), ("1.", 1.0), (".5", 0.5), ("007", 7.0), ("-3", -3.0)]
        {
            assert_eq!(number(text), Some(value), "{text}");
        }
        for wrong in ["", ".", "-", "--1", "+1", "1e3", "1,5", "inf", "-inf", "NaN", "0x10", "1 2", "1.2.3", "١"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
        let list: Vec<f64> = figures("100, 100;w=60, x, \"1000\";w=3600").map(|figure| figure.number).collect();
        assert_eq!(list, [100.0, 100.0, 1000.0]);
    }

    #[test]
    fn the_rest_is_rounded_down_and_the_cost_up() {
        assert_eq!(left(1.0 / 3.0).unwrap().micros(), 333_333);
        assert_eq!(spent(1.0 / 3.0).unwrap().micros(), 333_334);
        assert_eq!(left(2.3).unwrap().micros(), 2_300_000);
        assert_eq!(left(1e300).unwrap().units(), MAX_AMOUNT as f64);
        assert_eq!(left(-5.0), Some(Amount::ZERO));
        assert_eq!(spent(1e300), None);
    }

    #[test]
    fn waits_in_all_notations() {
        #[rustfmt::skip]
        let table = [
            // Numbers, by their size.
            ("30", 30_000), ("0.25", 250), ("-5", 0), ("0", 0), ("2764800", 2_764_800_000),
            ("1792567717", 37_000), ("1792567681.25", 1250), ("1372700873", 0), ("1792567717000", 37_000),
            ("1792567717000000", 37_000), ("1792567717000000000", 37_000), ("100000000000000000000", 31_622_400_000),
            // Durations.
            ("120ms", 120), ("6m0s", 360_000), ("1h2m", 3_720_000), ("1.5s", 1500), ("2d", 172_800_000),
            ("59.961s", 59_961), ("38s", 38_000), ("38S", 38_000), ("6 m", 360_000), ("2 seconds", 2000),
            ("1 minute", 60_000), ("3 mins 5 secs", 185_000), ("PT30S", 30_000), ("pt1m30s", 90_000), ("P1D", 86_400_000),
            ("00:01:30", 90_000), ("-1s", 0),
            // Dates, and their slips.
            ("Wed, 21 Oct 2026 07:28:37 GMT", 37_000), ("Wednesday, 21-Oct-26 07:28:37 GMT", 37_000),
            ("Wed Oct 21 07:28:37 2026", 37_000), ("wed, 21 oct 2026 07:28:37 gmt", 37_000),
            ("Wed, 21 Oct 2026 07:28:37 UTC", 37_000), ("Sun, 1 Nov 2026 07:28:00 GMT", 950_400_000),
            ("21 Oct 2026 07:28:37 GMT", 37_000), ("Wed, 21 Oct 2026 07:28:37 -0000", 37_000),
            ("Wed, 21 Oct 2026 09:28:37 +0200", 37_000), ("Wed, 21 Oct 2026 07:28:37", 37_000),
            ("Wed 21 Oct 2026 07:28:37 GMT", 37_000), ("Mon, 21 Oct 2026 07:28:37 GMT", 37_000),
            ("21-Oct-2026 07:28:37 GMT", 37_000), ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
            ("Wed Oct 21 2026 09:28:37 GMT+0200 (Central European Summer Time)", 37_000),
            // Moments of programs.
            ("2026-10-21T09:28:01+02:00", 1000), ("2026-10-21T07:28:00.250Z", 250), ("2026-10-21 07:28:37", 37_000),
            ("2026-10-21T07:28:37", 37_000), ("2026-10-21 07:28:37 UTC", 37_000), ("2026-10-21t07:28:37z", 37_000),
            // Joined values.
            ("30, 30", 30_000), ("5, 60", 60_000), ("\"30\"", 30_000), ("30;w=60", 30_000),
            ("Wed, 21 Oct 2026 07:28:37 GMT, Wed, 21 Oct 2026 07:29:00 GMT", 60_000), ("5, soon", 5000),
        ];
        for (text, millis) in table {
            assert_eq!(wait(text, 1e3, NOW).map(|wait| wait.span), Some(Span::from_millis(millis)), "{text}");
        }
        for wrong in
            ["", "soon", "tomorrow", "Wed, 21 Oct", "Sun, 31 Feb 2027 08:49:37 GMT", "1y", "s", "6m0", "1e3", "NaN"]
        {
            assert_eq!(wait(wrong, 1e3, NOW), None, "{wrong}");
        }
        // A number of milliseconds, however many, is no moment in seconds.
        assert_eq!(wait("2500000000", 1.0, NOW).map(|wait| wait.span), Some(Span::from_millis(2_500_000_000)));
        assert_eq!(wait("1500", 1.0, NOW).map(|wait| wait.span), Some(Span::from_millis(1500)));
    }

    #[test]
    fn months_end_in_utc() {
        let table = [
            ("2026-11-21T15:00:00Z", 9 * 24 + 9),
            ("2026-12-31T23:00:00Z", 1),
            ("2028-02-01T00:00:00Z", 29 * 24),
            ("2026-03-01T00:30:00+01:00", 1),
        ];
        for (now, hours) in table {
            let unix_ms = now.parse::<Timestamp>().unwrap().as_millisecond() as u64;
            let end = until_next_month(unix_ms).unwrap();
            assert!(end <= Span::from_secs(hours * 3600) && end > Span::from_secs((hours - 1) * 3600), "{now}: {end}");
        }
        assert_eq!(until_next_month(u64::MAX), None);
    }
}

//! The time from a wall time until a moment that a header names.

use crate::number::span;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use rampmeter_protocol::time::Span;

/// The date format of HTTP, and the two obsolete ones that HTTP still allows.
const HTTP_DATES: [&str; 3] = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// The time until a date of HTTP; none once it has passed.
pub(crate) fn until_http_date(text: &str, unix_ms: u64) -> Option<Span> {
    let date = HTTP_DATES.iter().find_map(|format| strtime::parse(format, text).ok()?.to_datetime().ok());
    let moment = date?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    until(moment.as_millisecond() as f64, unix_ms)
}

/// The time until a moment in RFC 3339; none once it has passed.
pub(crate) fn until_rfc3339(text: &str, unix_ms: u64) -> Option<Span> {
    let moment: Timestamp = text.parse().ok()?;
    until(moment.as_millisecond() as f64, unix_ms)
}

/// The time until a moment in seconds since 1970; none once it has passed.
pub(crate) fn until_epoch(seconds: f64, unix_ms: u64) -> Option<Span> {
    until(seconds * 1000.0, unix_ms)
}

/// The time until the month ends, in UTC.
pub(crate) fn until_next_month(unix_ms: u64) -> Option<Span> {
    let now = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
    let first = now.to_zoned(TimeZone::UTC).date().first_of_month();
    let next = first.checked_add(1.month()).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    until(next.as_millisecond() as f64, unix_ms)
}

fn until(moment_ms: f64, unix_ms: u64) -> Option<Span> {
    span((moment_ms - unix_ms as f64).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:00 GMT
    const NOW: u64 = 784_111_740_000;

    #[test]
    fn all_dates_of_http() {
        for date in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(until_http_date(date, NOW), Some(Span::from_secs(37)), "{date}");
            assert_eq!(until_http_date(date, NOW + 60_000), Some(Span::ZERO), "{date}");
        }
        for wrong in ["", "tomorrow", "Sun, 06 Nov 1994", "Sun, 31 Feb 1994 08:49:37 GMT", "06 Nov 1994 08:49:37 CET"] {
            assert_eq!(until_http_date(wrong, NOW), None, "{wrong}");
        }
    }

    #[test]
    fn moments_of_programs() {
        assert_eq!(until_rfc3339("1994-11-06T09:49:01+01:00", NOW), Some(Span::from_secs(1)));
        assert_eq!(until_rfc3339("1994-11-06T08:49:00.250Z", NOW), Some(Span::from_millis(250)));
        assert_eq!(until_rfc3339("1994-11-06", NOW), None);
        assert_eq!(until_epoch(784_111_741.5, NOW), Some(Span::from_millis(1500)));
        assert_eq!(until_epoch(0.0, NOW), Some(Span::ZERO));
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

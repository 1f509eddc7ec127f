//! The number of intervals of statistics.

use super::wire::{Aggregation, LastInterval};
use crate::error::Gap;
use crate::{Count, Error, ErrorKind};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// Three centuries of days.
const MAX_INTERVALS: u32 = 110_000;

pub(super) fn of(aggregation: &Aggregation) -> Result<Count, Error> {
    let Some(range) = &aggregation.time_range else { return Err(missing("timeRange")) };
    let Some(interval) = &aggregation.aggregation_interval else { return Err(missing("aggregationInterval")) };
    let (from, to) = (moment(&range.from, "from")?, moment(&range.to, "to")?);
    let (whole, rest) = whole(from, to, length(&interval.of)?)?;
    let counted = match interval.last_interval_behavior {
        LastInterval::Skip => whole,
        LastInterval::Shorten | LastInterval::Extend => whole + u32::from(rest),
    };
    Count::new(counted.max(1))
}

fn missing(name: &str) -> Error {
    Error::gap(ErrorKind::Missing, "there is none", Gap::INTERVALS.or("give it")).at(format!("aggregation.{name}"))
}

fn moment(text: &str, name: &str) -> Result<DateTime, Error> {
    let zoned = text.parse::<Timestamp>().map(|moment| TimeZone::UTC.to_datetime(moment));
    zoned.or_else(|_| text.parse::<DateTime>()).map_err(|_| {
        let problem = format!("`{text}` is no time");
        let remedy = "give one such as 2026-11-01T00:00:00Z";
        Error::new(ErrorKind::Malformed, problem, remedy).at(format!("aggregation.timeRange.{name}"))
    })
}

fn length(text: &str) -> Result<Span, Error> {
    let span = text.parse::<Span>().ok().filter(|span| span.is_positive());
    span.ok_or_else(|| {
        let problem = format!("`{text}` is no duration");
        Error::new(ErrorKind::Malformed, problem, "give one such as P1D, P1M or PT12H")
            .at("aggregation.aggregationInterval.of")
    })
}

/// Returns how many whole intervals there are, and whether a part is left.
fn whole(from: DateTime, to: DateTime, length: Span) -> Result<(u32, bool), Error> {
    if from >= to {
        let problem = "the time range ends before it begins";
        return Err(Error::new(ErrorKind::OutOfBounds, problem, "give `from` < `to`").at("aggregation.timeRange"));
    }
    let mut whole = 0;
    // Always from the beginning: a month after January 31 is in February, two months after it is March 31.
    while let Some(end) = end_of(from, length, whole + 1).filter(|end| *end <= to) {
        whole += 1;
        if end == to {
            return Ok((whole, false));
        }
        if whole == MAX_INTERVALS {
            let problem = format!("there are more than {MAX_INTERVALS} intervals");
            let gap = Gap::INTERVALS.or("split the request");
            return Err(Error::gap(ErrorKind::OutOfBounds, problem, gap).at("aggregation.aggregationInterval.of"));
        }
    }
    Ok((whole, true))
}

/// Returns the end of the interval; `None` beyond the end of time.
fn end_of(from: DateTime, length: Span, intervals: u32) -> Option<DateTime> {
    let span = length.checked_mul(i64::from(intervals)).ok()?;
    from.checked_add(span).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `MAX_INTERVALS`.
    #[test]
    fn a_hundred_and_ten_thousand_intervals_are_counted() {
        let from = jiff::civil::date(2026, 1, 1).at(0, 0, 0, 0);
        let second = Span::new().seconds(1);
        let counted = |seconds: i64| whole(from, from + second * seconds, second).map_err(|error| error.kind());
        assert_eq!(counted(110_000), Ok((110_000, false)));
        assert_eq!(counted(110_001), Err(ErrorKind::OutOfBounds));
    }
}

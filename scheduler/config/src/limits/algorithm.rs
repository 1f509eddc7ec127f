//! The algorithm and the period of a limit.

use crate::keys::value;
use crate::limits::table::LimitTable;
use crate::reading::source::{ConfigError, Source};
use crate::reading::value::amount;
use jiff::tz::TimeZone;
use rampmeter_policy::spec::{Algorithm, Alignment, MAX_PERIOD};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::suggestion::{did_you_mean, quoted};
use rampmeter_protocol::time::Span;
use std::ops::Range;
use toml::Spanned;

const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// The usual lengths of days and months, only to determine rates: windows follow the calendar.
const DAY: Span = Span::from_secs(86_400);
const MONTH: Span = Span::from_secs(30 * 86_400);

const NO_RESET: &str = "a quota needs `resets`, which says when it is full again: \"day\", \"month\", \"epoch\" or \
                        \"first-use\" with a `period`, or \"never\"";

/// The algorithms by name, with a description of each.
pub(crate) const ALGORITHMS: [(&str, &str); 6] = [
    ("token-bucket", "a bucket holds `capacity` and fills within `period`"),
    ("leaky-bucket", "the same seen from below; `drain_velocity` may stand for the period"),
    ("fixed-window", "`capacity` in each window; `aligned` says when windows begin"),
    ("sliding-window", "`capacity` in any `period`, wherever it begins"),
    ("concurrency", "`capacity` in flight; `time_to_live` bounds each call"),
    ("quota", "`capacity` until `resets`; requests do not wait for that"),
];

/// Reads the algorithm; a token bucket if none is given.
pub(crate) fn algorithm(source: &Source, table: &LimitTable) -> Result<Algorithm, ConfigError> {
    let algorithm = match known_algorithm(source, table)? {
        "token-bucket" => Algorithm::TokenBucket,
        "leaky-bucket" => Algorithm::LeakyBucket,
        "sliding-window" => Algorithm::SlidingWindow,
        "concurrency" => Algorithm::Concurrency,
        "fixed-window" => {
            Algorithm::FixedWindow(alignment(source, table, table.aligned.as_ref())?.unwrap_or(Alignment::Epoch))
        }
        "quota" if table.resets.is_none() && !source.is_stored => {
            return Err(source.fault(&table.capacity.span(), NO_RESET));
        }
        _ => Algorithm::Quota(alignment(source, table, table.resets.as_ref())?),
    };
    check_keys(source, table, &algorithm)?;
    Ok(algorithm)
}

/// Returns the name of the algorithm, which is one of [`ALGORITHMS`].
pub(crate) fn known_algorithm<'a>(source: &Source, table: &'a LimitTable) -> Result<&'a str, ConfigError> {
    let Some(name) = &table.algorithm else { return Ok("token-bucket") };
    let known = || ALGORITHMS.iter().map(|(known, _)| *known);
    if known().any(|known| known == name.get_ref()) {
        return Ok(name.get_ref());
    }
    let meant = did_you_mean(name.get_ref(), known());
    let reason = format!("algorithm `{}` is not known{meant}; there are {}", name.get_ref(), quoted(known()));
    Err(source.fault(&name.span(), reason))
}

/// Refuses keys that belong to other algorithms.
fn check_keys(source: &Source, table: &LimitTable, algorithm: &Algorithm) -> Result<(), ConfigError> {
    let words = [
        ("aligned", span_of(&table.aligned), matches!(algorithm, Algorithm::FixedWindow(_)), "fixed-window"),
        ("resets", span_of(&table.resets), matches!(algorithm, Algorithm::Quota(_)), "quota"),
        ("time_to_live", span_of(&table.time_to_live), *algorithm == Algorithm::Concurrency, "concurrency"),
    ];
    for (key, given, fits, name) in words {
        if let Some(given) = given.filter(|_| !fits) {
            return Err(source.fault(&given, format!("`{key}` is for `algorithm = \"{name}\"`; leave it out")));
        }
    }
    let tokens = matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
    match (&table.zone, calendar(algorithm)) {
        (Some(zone), None) => {
            Err(source.fault(&zone.span(), "`zone` is for windows of days and months; leave it out otherwise"))
        }
        (Some(_) | None, _) => match &table.refill_interval {
            Some(interval) if !tokens => {
                Err(source.fault(&interval.span(), "`refill_interval` is for buckets of tokens; give a `period`"))
            }
            Some(_) | None => Ok(()),
        },
    }
}

fn span_of<T>(given: &Option<Spanned<T>>) -> Option<Range<usize>> {
    given.as_ref().map(Spanned::span)
}

fn calendar(algorithm: &Algorithm) -> Option<Span> {
    match algorithm {
        Algorithm::FixedWindow(Alignment::Day(_)) | Algorithm::Quota(Some(Alignment::Day(_))) => Some(DAY),
        Algorithm::FixedWindow(Alignment::Month(_)) | Algorithm::Quota(Some(Alignment::Month(_))) => Some(MONTH),
        Algorithm::FixedWindow(Alignment::Epoch | Alignment::FirstUse)
        | Algorithm::Quota(Some(Alignment::Epoch | Alignment::FirstUse) | None)
        | Algorithm::TokenBucket
        | Algorithm::LeakyBucket
        | Algorithm::SlidingWindow
        | Algorithm::Concurrency => None,
    }
}

fn alignment(
    source: &Source,
    table: &LimitTable,
    word: Option<&Spanned<String>>,
) -> Result<Option<Alignment>, ConfigError> {
    let Some(word) = word else { return Ok(None) };
    Ok(match word.get_ref().as_str() {
        "epoch" => Some(Alignment::Epoch),
        "first-use" => Some(Alignment::FirstUse),
        "day" => Some(Alignment::Day(zone(source, table)?)),
        "month" => Some(Alignment::Month(zone(source, table)?)),
        "never" if table.resets.is_some() => None,
        other => {
            let never = if table.resets.is_some() { ", `never`" } else { "" };
            let reason =
                format!("`{other}` is no beginning of a window; there are `epoch`, `first-use`, `day`, `month`{never}");
            return Err(source.fault(&word.span(), reason));
        }
    })
}

/// Reads the time zone; UTC if none is given.
fn zone(source: &Source, table: &LimitTable) -> Result<TimeZone, ConfigError> {
    let Some(zone) = &table.zone else { return Ok(TimeZone::UTC) };
    let unknown = |_| {
        let reason =
            format!("there is no time zone `{}`; zones are called like `Europe/Berlin` or `UTC`", zone.get_ref());
        source.fault(&zone.span(), reason)
    };
    TimeZone::get(zone.get_ref()).map_err(unknown)
}

/// Computes the time in which an empty bucket fills: the period, or from the time for one token or
/// the amount that drains in a second. Calendar windows and calls in flight have their own lengths.
pub(crate) fn period(
    source: &Source,
    table: &LimitTable,
    algorithm: &Algorithm,
    capacity: Amount,
) -> Result<Span, ConfigError> {
    if let Some(length) = length_of_its_own(source, table, algorithm)? {
        return Ok(length);
    }
    match (&table.period, &table.refill_interval, &table.drain_velocity) {
        (None, None, Some(velocity)) if *algorithm == Algorithm::LeakyBucket => {
            let drained = amount(source, velocity)?;
            if drained == Amount::ZERO {
                return Err(source.fault(&velocity.span(), "a `drain_velocity` is above 0, in units per second"));
            }
            Ok(rounded_up(u128::from(capacity.micros()) * NANOS_PER_SECOND, drained))
        }
        (_, _, Some(velocity)) => Err(source.fault(
            &velocity.span(),
            "`drain_velocity` is for `algorithm = \"leaky-bucket\"`, in place of a `period` or a `refill_interval`",
        )),
        (Some(period), None, None) => Ok(value(period)),
        (None, Some(interval), None) => {
            let interval: Span = value(interval);
            let nanos = u128::from(interval.nanos()) * u128::from(capacity.micros());
            Ok(rounded_up(nanos, Amount::ONE))
        }
        (Some(_), Some(interval), None) => {
            Err(source.fault(&interval.span(), "give `period` or `refill_interval`, not both"))
        }
        (None, None, None) => Err(source.fault(&table.capacity.span(), missing(algorithm))),
    }
}

/// Returns the length of limits that take no period.
fn length_of_its_own(source: &Source, table: &LimitTable, algorithm: &Algorithm) -> Result<Option<Span>, ConfigError> {
    let length = match algorithm {
        Algorithm::Concurrency => table.time_to_live.as_ref().map(|time| (value(time), "`time_to_live`")),
        Algorithm::Quota(None) => Some((MAX_PERIOD, "a quota that is never reset (`resets` says when one is)")),
        Algorithm::TokenBucket
        | Algorithm::LeakyBucket
        | Algorithm::SlidingWindow
        | Algorithm::FixedWindow(_)
        | Algorithm::Quota(Some(_)) => calendar(algorithm).map(|length| (length, "the calendar")),
    };
    match (length, &table.period) {
        (Some((_, word)), Some(period)) => {
            Err(source.fault(&period.span(), format!("`period` has no meaning beside {word}; leave it out")))
        }
        (length, _) => Ok(length.map(|(length, _)| length)),
    }
}

fn missing(algorithm: &Algorithm) -> &'static str {
    match algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => "the limit needs a `period` or a `refill_interval`",
        Algorithm::Concurrency => {
            "the limit needs a `time_to_live`: how long a call may be in flight without being renewed or settled"
        }
        Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::Quota(_) => "the limit needs a `period`",
    }
}

/// Divides, rounding up: a longer period is never in favour of the caller.
fn rounded_up(nanos_and_micros: u128, by: Amount) -> Span {
    let nanos = nanos_and_micros.div_ceil(u128::from(by.micros()));
    Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

//! Dates, in UTC. There is no clock: a date is made from what the script says.

use super::no_method;
use crate::error::Problem;
use crate::machine::{Machine, Outcome};
use crate::value::{DateId, Value};

const DAY: f64 = 86_400_000.0;
const HOUR: f64 = 3_600_000.0;
const MINUTE: f64 = 60_000.0;

/// The latest time that JavaScript knows, in milliseconds since 1970.
const LATEST: f64 = 8.64e15;

/// The most characters of a date that an error shows.
const MAX_SHOWN: usize = 40;

/// A day of the calendar. The month counts from zero, as in JavaScript.
struct Day {
    year: f64,
    month: f64,
    day: f64,
}

/// `new Date(arguments)`
pub(crate) fn new(machine: &mut Machine, arguments: &[Value]) -> Outcome {
    let time = match arguments {
        [] => return Err(Problem::unsupported("`new Date` without arguments")),
        [Value::Text(text)] => parsed(text)?,
        [Value::Array(_) | Value::Object(_)] => return Err(Problem::unsupported("a date of this value")),
        [time] => clipped(machine.number_of(time)?),
        _ => parts(machine, arguments)?,
    };
    machine.date(time)
}

/// The time of a year, a month, and what else is given.
pub(crate) fn parts(machine: &mut Machine, arguments: &[Value]) -> Outcome<f64> {
    let mut parts = [f64::NAN, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    for (part, argument) in parts.iter_mut().zip(arguments) {
        *part = machine.number_of(argument)?.trunc();
    }
    if (0.0..=99.0).contains(&parts[0]) {
        parts[0] += 1900.0;
    }
    Ok(time_of(parts))
}

/// The time of a year, a month from zero, a day, hours, minutes, seconds and milliseconds.
fn time_of([year, month, day, hours, minutes, seconds, milliseconds]: [f64; 7]) -> f64 {
    let time = hours * HOUR + minutes * MINUTE + seconds * 1000.0 + milliseconds;
    clipped(days(&Day { year, month, day }) * DAY + time)
}

/// The time that a text in the form of ISO 8601 means.
pub(crate) fn parsed(text: &str) -> Outcome<f64> {
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    iso(text.trim()).map(clipped).ok_or_else(|| Problem::unsupported(&format!("the date `{shown}`")))
}

/// `date.name(arguments)`
pub(crate) fn call(machine: &mut Machine, id: DateId, name: &str, arguments: &[Value]) -> Outcome {
    if name.starts_with("set") {
        return set(machine, id, name, arguments);
    }
    let date = machine.time(id)?;
    let number = match name.replace("UTC", "").as_str() {
        "getTime" | "valueOf" => date,
        "getTimezoneOffset" => 0.0,
        "getFullYear" => calendar(date).year,
        "getMonth" => calendar(date).month,
        "getDate" => calendar(date).day,
        "getDay" => ((date / DAY).floor() + 4.0).rem_euclid(7.0),
        "getHours" => (date / HOUR).floor().rem_euclid(24.0),
        "getMinutes" => (date / MINUTE).floor().rem_euclid(60.0),
        "getSeconds" => (date / 1000.0).floor().rem_euclid(60.0),
        "getMilliseconds" => date.rem_euclid(1000.0),
        "toISOString" | "toJSON" => return machine.text(&text(date)?),
        _ => return Err(no_method("a date", name)),
    };
    Ok(Value::Number(number))
}

/// Changes a part of a date, and those behind it for which there are arguments.
fn set(machine: &mut Machine, id: DateId, name: &str, arguments: &[Value]) -> Outcome {
    let date = machine.time(id)?;
    let (first, count) = match name.replace("UTC", "").as_str() {
        "setFullYear" => (0, 3),
        "setMonth" => (1, 2),
        "setDate" => (2, 1),
        "setHours" => (3, 4),
        "setMinutes" => (4, 3),
        "setSeconds" => (5, 2),
        "setMilliseconds" => (6, 1),
        _ => return Err(no_method("a date", name)),
    };
    if date.is_nan() || arguments.is_empty() {
        return Err(Problem::unsupported(&format!("this call of `{name}`")));
    }
    let Day { year, month, day } = calendar(date);
    let time = date.rem_euclid(DAY);
    let (hours, minutes, seconds) = (time / HOUR, time / MINUTE % 60.0, time / 1000.0 % 60.0);
    let mut parts = [year, month, day, hours.floor(), minutes.floor(), seconds.floor(), time % 1000.0];
    for (part, argument) in parts[first..].iter_mut().zip(&arguments[..arguments.len().min(count)]) {
        *part = machine.number_of(argument)?.trunc();
    }
    machine.set_time(id, time_of(parts));
    Ok(Value::Number(time_of(parts)))
}

/// The date in the form of ISO 8601.
pub(crate) fn text(date: f64) -> Outcome<String> {
    let Day { year, month, day } = calendar(date);
    if !(0.0..=9999.0).contains(&year) {
        return Err(Problem::thrown("the date is out of range"));
    }
    let rest = date.rem_euclid(DAY) + 0.0; // Zero is not negative.
    let (hours, minutes) = ((rest / HOUR).floor(), (rest / MINUTE).floor() % 60.0);
    let (seconds, milliseconds) = ((rest / 1000.0).floor() % 60.0, rest % 1000.0);
    Ok(format!("{year:04}-{:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}Z", month + 1.0))
}

fn clipped(time: f64) -> f64 {
    if time.abs() <= LATEST { time.trunc() } else { f64::NAN }
}

/// The days since 1970. Months and days beyond their range count on, and years begin in March.
fn days(of: &Day) -> f64 {
    let months = of.year * 12.0 + of.month - 2.0;
    let (year, month) = ((months / 12.0).floor(), months.rem_euclid(12.0));
    let leap_days = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let day_of_year = ((153.0 * month + 2.0) / 5.0).floor() + of.day - 1.0;
    year * 365.0 + leap_days + day_of_year - 719_468.0
}

/// The day of a time.
fn calendar(time: f64) -> Day {
    let days = (time / DAY).floor() + 719_468.0;
    let era = (days / 146_097.0).floor();
    let day_of_era = days - era * 146_097.0;
    let past = (day_of_era / 1_460.0).floor() - (day_of_era / 36_524.0).floor() + (day_of_era / 146_096.0).floor();
    let year_of_era = ((day_of_era - past) / 365.0).floor();
    let leap_days = (year_of_era / 4.0).floor() - (year_of_era / 100.0).floor();
    let day_of_year = day_of_era - (365.0 * year_of_era + leap_days);
    let month = ((5.0 * day_of_year + 2.0) / 153.0).floor();
    let day = day_of_year - ((153.0 * month + 2.0) / 5.0).floor() + 1.0;
    let is_next_year = month >= 10.0;
    Day {
        year: year_of_era + era * 400.0 + f64::from(is_next_year),
        month: if is_next_year { month - 10.0 } else { month + 2.0 },
        day,
    }
}

/// `2026-11-23`, `2026-11-23T12:00:00.000Z`, and what lies between. A time without a zone is in
/// UTC.
fn iso(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', ' ']).map_or((text, None), |(date, time)| (date, Some(time)));
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month =
        parts.next().map_or(Some(1.0), |month| digits(month, 2)).filter(|month| (1.0..=12.0).contains(month))?;
    let day = parts.next().map_or(Some(1.0), |day| digits(day, 2)).filter(|day| (1.0..=31.0).contains(day))?;
    let days = days(&Day { year, month: month - 1.0, day });
    let is_complete = parts.next().is_none() && calendar(days * DAY).month == month - 1.0;
    let time = time.map_or(Some(0.0), time_of_day)?;
    is_complete.then_some(days * DAY + time)
}

/// `12:00`, `12:00:00` or `12:00:00.000`, and a zone.
fn time_of_day(text: &str) -> Option<f64> {
    let end = text.find(['Z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at(end);
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = whole.split(':');
    let (hours, minutes) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let seconds = parts.next().map_or(Some(0.0), |seconds| digits(seconds, 2))?;
    let fraction: f64 = digits(fraction, fraction.len()).and_then(|_| format!("0.{fraction}").parse().ok())?;
    let is_valid = parts.next().is_none() && hours <= 24.0 && minutes < 60.0 && seconds < 60.0;
    let milliseconds = seconds * 1000.0 + (fraction * 1000.0).floor();
    is_valid.then_some(hours * HOUR + minutes * MINUTE + milliseconds - offset(zone)?)
}

/// How far a zone is ahead of UTC.
fn offset(zone: &str) -> Option<f64> {
    let sign = match zone.get(..1) {
        None => return Some(0.0),
        Some("Z") => return (zone == "Z").then_some(0.0),
        Some("+") => 1.0,
        Some(_) => -1.0,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    Some(sign * (digits(hours, 2)? * HOUR + digits(minutes, 2)? * MINUTE))
}

fn digits(text: &str, count: usize) -> Option<f64> {
    let is_number = text.len() == count && count > 0 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `MAX_SHOWN`: 40 characters.
    #[test]
    fn an_error_shows_the_beginning_of_a_date() {
        for (length, shown) in [(3, 3), (40, 40), (41, 40), (1_000_000, 40)] {
            let problem = parsed(&"x".repeat(length)).unwrap_err();
            assert_eq!(problem, Problem::unsupported(&format!("the date `{}`", "x".repeat(shown))));
        }
    }
}

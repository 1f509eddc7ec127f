//! Answers and their readings, as texts.

#![allow(dead_code, reason = "each test takes what it needs")]

use rampmeter_dialects::{Dialect, DialectReading, Reader};
use rampmeter_policy::observation::{Reading, Scope, Verdict};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::settle::{Headers, Response};
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::Span;

/// Wed, 21 Oct 2026 07:28:00 GMT
pub(crate) const NOW: u64 = 1_792_567_680_000;

/// Reads `answer`, a status and its headers, one a line. `expected` has a line for the verdict,
/// each bucket, each cost, and each unreadable header.
pub(crate) fn check(reader: &Reader, answer: &str, expected: &str) {
    let expected: Vec<_> = expected.lines().map(str::trim).collect();
    assert_eq!(text(&reader.read(&response(answer), NOW)), expected, "{}\n{answer}", reader.dialect());
}

/// The same with the default reader of `dialect`.
pub(crate) fn check_plainly(dialect: Dialect, answer: &str, expected: &str) {
    check(&Reader::of(dialect), answer, expected);
}

/// The answer in a text: a status, perhaps with `quota spent` or an error's code, and headers.
pub(crate) fn response(answer: &str) -> Response<'static> {
    let mut lines = answer.lines().map(str::trim).filter(|line| !line.is_empty());
    let status = lines.next().expect("an answer has a status");
    let (status, rest) = status.split_once(' ').unwrap_or((status, ""));
    let header = |line: &str| {
        let (name, value) = line.split_once(':').expect("a header has a colon");
        (Text::from(name.to_ascii_lowercase()), Text::from(value.to_owned()))
    };
    let status = status.parse().expect("a status is a number");
    let quota_spent = rest == "quota spent";
    let code = Some(rest).filter(|rest| !rest.is_empty() && !quota_spent).map(|code| Text::from(code.to_owned()));
    Response { status, headers: Headers::first_of(lines.map(header)), quota_spent, code }
}

fn text(answer: &DialectReading) -> Vec<String> {
    let observation = &answer.observation;
    let readings = observation.readings.iter().map(reading);
    let spent = observation.spent.iter().map(|(unit, amount)| format!("spent {amount} {unit}"));
    let unreadable = answer.unreadable.iter().map(|header| format!("unreadable {header}"));
    [verdict(&observation.verdict)].into_iter().chain(readings).chain(spent).chain(unreadable).collect()
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Passed => "passed".to_owned(),
        Verdict::Busy => "busy".to_owned(),
        Verdict::Crowded => "crowded".to_owned(),
        Verdict::Limited { scope: of, retry_after, by_other_accounts: others } => {
            let by = if *others { " by others" } else { "" };
            format!("limited {} for {}{by}", scope(of), span(*retry_after))
        }
        Verdict::Exhausted { scope: of, reset } => format!("exhausted {} for {}", scope(of), span(*reset)),
    }
}

fn reading(reading: &Reading) -> String {
    let of = reading.capacity.map_or_else(|| "?".to_owned(), |capacity| capacity.to_string());
    let is_whole = reading.remaining_grain == Amount::ONE;
    let steps = if is_whole { String::new() } else { format!(" in steps of {}", reading.remaining_grain) };
    format!("{} {}/{of}{steps} reset {}", scope(&reading.scope), reading.remaining, span(reading.reset))
}

fn scope(scope: &Scope) -> String {
    match scope {
        Scope::Unnamed => "unnamed".to_owned(),
        Scope::Unit(unit) => format!("unit={unit}"),
        Scope::Limit(name) => format!("limit={name}"),
        Scope::Policy(name) => format!("policy={name}"),
        Scope::Narrow => "narrow".to_owned(),
    }
}

fn span(span: Option<Span>) -> String {
    span.map_or_else(|| "?".to_owned(), |span| span.to_string())
}

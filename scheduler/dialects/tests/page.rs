//! The forms of headers that docs/upstreams.md lists are read as it says.

mod common;

use common::{NOW, response};
use rampmeter_dialects::{Dialect, DialectReading, Reader};
use rampmeter_policy::observation::{Reading, Scope, Verdict};
use rampmeter_protocol::time::Span;

const PAGE: &str = include_str!("../../../docs/upstreams.md");
/// The heading of the table.
const HEADING: &str = "| a response | by | what is read |";
/// Fewer forms than this are not what people meet.
const FORMS: usize = 40;

#[test]
fn every_form_of_the_page_is_read_as_it_says() {
    let (_, table) = PAGE.split_once(HEADING).expect("the page has the table");
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= FORMS, "{}", rows.len());
    for row in rows {
        let columns: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [answer, _, read] = columns[..] else { panic!("three columns: {row}") };
        let answer = response(&spans(answer).join("\n"));
        let read_so = told(&Reader::of(Dialect::Generic).read(&answer, NOW));
        assert_eq!(read_so, spans(read), "{row}");
    }
}

/// The texts in backticks.
fn spans(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn told(reading: &DialectReading) -> Vec<String> {
    assert_eq!(reading.unreadable, Vec::<String>::new());
    let pause = match &reading.observation.verdict {
        Verdict::Limited { retry_after: Some(pause), .. } => Some(format!("pause {pause}")),
        Verdict::Passed => None,
        other @ (Verdict::Limited { .. } | Verdict::Busy | Verdict::Crowded | Verdict::Exhausted { .. }) => {
            panic!("{other:?}")
        }
    };
    pause.into_iter().chain(reading.observation.readings.iter().map(left)).collect()
}

/// `left 59 of 60 tokens in 60s, reset 30s`
fn left(reading: &Reading) -> String {
    let capacity = reading.capacity.map_or(String::new(), |capacity| format!(" of {capacity}"));
    let of = match &reading.scope {
        Scope::Unnamed => String::new(),
        Scope::Unit(unit) => format!(" {unit}"),
        Scope::Limit(name) | Scope::Policy(name) => format!(" of {name}"),
        Scope::Narrow => " of a narrow limit".to_owned(),
    };
    let described = &reading.described;
    let until = if described.is_gradual { "full in" } else { "reset" };
    let span = |before: &str, span: Option<Span>| span.map_or(String::new(), |span| format!("{before} {span}"));
    let (window, reset) = (span(" in", described.period), span(&format!(", {until}"), reading.reset));
    format!("left {}{capacity}{of}{window}{reset}", reading.remaining)
}

//! The report at the end of the demo: a table, explanations of surprising rows, and next steps.

use super::figures::{Comparison, Figures, Wait};
use super::scenario::{BULK, CLASSES, INTERACTIVE, STANDARD};
use crate::commands::output::human::wrapped;
use crate::commands::output::table::table;

/// The columns of a narrow terminal.
const COLUMNS: usize = 80;
/// Shares of the bandwidth that differ by less are equal to people.
const SAME_SHARE: f64 = 0.05;
/// A wait that people notice, in milliseconds.
const NOTICED_MS: f64 = 50.0;

pub(super) fn side_by_side(comparison: &Comparison) -> String {
    let Comparison { uncoordinated, coordinated } = comparison;
    let row = |name: &str, of: &dyn Fn(&Figures) -> String| [name.to_owned(), of(uncoordinated), of(coordinated)];
    let calls = [
        row("calls sent", &|figures| figures.sent.to_string()),
        row("answered 200", &|figures| figures.ok.to_string()),
        row("answered 429", &|figures| figures.rate_limited.to_string()),
        row("use of the bandwidth", &|figures| percent(figures.utilisation)),
    ];
    let waits = CLASSES
        .iter()
        .enumerate()
        .map(|(place, class)| row(&format!("wait p50 / p99, {}", class.name), &|figures| wait(figures.wait_ms[place])));
    table(&["", "uncoordinated", "with permits"], 1..3, calls.into_iter().chain(waits))
}

/// Formats a share like `97.3 %`.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Formats median and 99th percentile like `1.2 ms / 3.40 s`.
pub(super) fn wait(wait: Option<Wait>) -> String {
    let time = |millis: f64| if millis < 1e3 { format!("{millis:.1} ms") } else { format!("{:.2} s", millis / 1e3) };
    wait.map_or_else(|| "–".to_owned(), |wait| format!("{} / {}", time(wait.p50), time(wait.p99)))
}

/// Returns the text below the table. `program` is the command by which the user has called this program.
pub(super) fn explanation(comparison: &Comparison, program: &str) -> String {
    let notes = notes(comparison).into_iter();
    let notes = notes.map(|note| format!("* {}\n", wrapped(&note, COLUMNS - 2).replace('\n', "\n  ")));
    notes.collect::<String>()
        + &format!(
            "\nWhat next:
  your own limits  {program} check --print-default > rampmeter.toml
  a scheduler      {program} serve --embedded-nats
  a worker         docs/workers.md, in Rust or Python
  all of it        the quick start in docs/configuration.md"
        )
}

/// Returns sentences that explain surprising rows. Rows that show what a reader expects have none.
fn notes(Comparison { uncoordinated: alone, coordinated: with }: &Comparison) -> Vec<String> {
    let shares = alone.utilisation.zip(with.utilisation);
    let is_same_share = shares.is_some_and(|(alone, with)| (alone - with).abs() < SAME_SHARE);
    let is_shorter = |class: &usize| {
        let medians = alone.wait_ms[*class].zip(with.wait_ms[*class]);
        medians.is_some_and(|(alone, with)| alone.p50 < with.p50)
    };
    let small = [INTERACTIVE, STANDARD].into_iter().filter(is_shorter).map(|class| CLASSES[class].name);
    let (small, units) = (small.collect::<Vec<_>>().join(" and "), CLASSES[BULK].processing_units);
    let is_noticed = with.wait_ms[INTERACTIVE].is_some_and(|wait| wait.p99 > NOTICED_MS);
    let notes = [
        (
            is_same_share && alone.rate_limited > 0,
            "Both sides use the same bandwidth, because a 429 takes nothing from a limit. What permits change is the \
             number of rejected calls, and which call waits."
                .to_owned(),
        ),
        (
            !small.is_empty(),
            format!(
                "The median wait of {small} calls is short without permits, too, because they are small. They often \
                 fit where a bulk call of {units} processing units does not."
            ),
        ),
        (
            is_shorter(&BULK),
            "Bulk calls seem to wait less without permits, because a median counts calls. The lucky few call again and \
             again, while the other workers back off. With permits all wait their turn."
                .to_owned(),
        ),
        (
            is_noticed,
            "The longest interactive waits with permits are in the first moment. The scheduler draws with care on \
             buckets that it has never seen."
                .to_owned(),
        ),
    ];
    notes.into_iter().filter_map(|(is_seen, note)| is_seen.then_some(note)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::example;
    use super::*;

    #[test]
    fn both_phases_stand_side_by_side() {
        let golden = [
            "                                   uncoordinated     with permits",
            " calls sent                                 5000             1100",
            " answered 200                               1000             1100",
            " answered 429                               4000                0",
            " use of the bandwidth                          –           99.5 %",
            " wait p50 / p99, interactive  812.5 ms / 12.35 s  0.8 ms / 2.5 ms",
            " wait p50 / p99, standard        0.0 ms / 1.0 ms  1.0 ms / 4.0 ms",
            " wait p50 / p99, bulk                          –  6.00 s / 7.00 s",
        ];
        let text = side_by_side(&example());
        let rows: Vec<_> = text.lines().filter(|line| !line.starts_with('─')).map(str::trim_end).collect();
        assert_eq!(rows, golden);
    }

    /// The figures of the README.
    fn of_the_readme() -> Comparison {
        let wait = |p50, p99| Some(Wait { p50, p99 });
        let Comparison { uncoordinated, coordinated } = example();
        Comparison {
            uncoordinated: Figures {
                utilisation: Some(1.0),
                wait_ms: [wait(0.0, 191.5), wait(11.6, 9330.0), wait(94.0, 20_460.0)],
                ..uncoordinated
            },
            coordinated: Figures {
                utilisation: Some(0.999),
                wait_ms: [wait(0.6, 80.7), wait(0.6, 67.1), wait(5840.0, 6680.0)],
                ..coordinated
            },
        }
    }

    #[test]
    fn each_row_that_surprises_has_its_sentence() {
        let golden = "\
* Both sides use the same bandwidth, because a 429 takes nothing from a limit.
  What permits change is the number of rejected calls, and which call waits.
* The median wait of interactive calls is short without permits, too, because
  they are small. They often fit where a bulk call of 3 processing units does
  not.
* Bulk calls seem to wait less without permits, because a median counts calls.
  The lucky few call again and again, while the other workers back off. With
  permits all wait their turn.
* The longest interactive waits with permits are in the first moment. The
  scheduler draws with care on buckets that it has never seen.

What next:
  your own limits  target/release/rampmeter check --print-default > rampmeter.toml
  a scheduler      target/release/rampmeter serve --embedded-nats
  a worker         docs/workers.md, in Rust or Python
  all of it        the quick start in docs/configuration.md";
        assert_eq!(explanation(&of_the_readme(), "target/release/rampmeter"), golden);
    }
}

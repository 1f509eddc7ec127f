//! What the figures mean: sentences for the rows that surprise, and what to do next.

use super::backoff::LONGEST;
use super::class::Class;
use super::figures::{Comparison, Figures};
use crate::commands::output::human::wrapped;

/// The columns of a narrow terminal.
const COLUMNS: usize = 80;
/// Two shares of the bandwidth that differ by less are the same for people.
const SAME_SHARE: f64 = 0.05;
/// Milliseconds of a wait that people notice.
const NOTICED_MS: f64 = 50.0;

/// The text below the table. `program` is the command by which the user has called this program.
pub(super) fn render(comparison: &Comparison, program: &str) -> String {
    let notes = notes(comparison).into_iter().map(|note| bullet(&note));
    let next = [
        ("your own limits", format!("{program} check --print-default > rampmeter.toml")),
        ("a scheduler", format!("{program} serve --embedded-nats")),
        ("a worker", "docs/workers.md, in Rust or Python".to_owned()),
        ("all of it", "the quick start in docs/configuration.md".to_owned()),
    ];
    let next = next.map(|(wish, how)| format!("  {wish:<17}{how}"));
    notes.chain(["\nWhat next:".to_owned()]).chain(next).collect::<Vec<_>>().join("\n")
}

/// The sentences that explain surprising rows. Rows that show what a reader expects have none.
fn notes(comparison: &Comparison) -> Vec<String> {
    let Comparison { uncoordinated, coordinated } = comparison;
    let all = [
        same_bandwidth(uncoordinated, coordinated),
        small_calls(uncoordinated, coordinated),
        lucky_bulk(uncoordinated, coordinated),
        first_moment(coordinated),
    ];
    all.into_iter().flatten().collect()
}

fn same_bandwidth(alone: &Figures, with: &Figures) -> Option<String> {
    let same = (alone.utilisation? - with.utilisation?).abs() < SAME_SHARE;
    let text = "Both sides use the same bandwidth, because a 429 takes nothing from a limit. What permits change \
                is the number of rejected calls, and which call waits.";
    (same && alone.rate_limited > 0).then(|| text.to_owned())
}

fn small_calls(alone: &Figures, with: &Figures) -> Option<String> {
    let urgent = [Class::Interactive, Class::Standard].into_iter().filter(|class| is_shorter(alone, with, *class));
    let names: Vec<&str> = urgent.map(Class::name).collect();
    let (listed, units) = (names.join(" and "), Class::Bulk.processing_units());
    (!names.is_empty()).then(|| {
        format!(
            "The median wait of {listed} calls is short without permits, too, because they are small. They often fit \
             where a bulk call of {units} processing units does not."
        )
    })
}

fn lucky_bulk(alone: &Figures, with: &Figures) -> Option<String> {
    is_shorter(alone, with, Class::Bulk).then(|| {
        format!(
            "Bulk calls seem to wait less without permits, because a median counts calls. The lucky few call again \
             and again, while the other workers back off for up to {} s. With permits all wait their turn.",
            LONGEST.as_secs()
        )
    })
}

fn first_moment(with: &Figures) -> Option<String> {
    let text = "The longest interactive waits with permits are in the first moment. The scheduler draws with care \
                on buckets that it has never seen.";
    (with.wait_ms[Class::Interactive]?.p99 > NOTICED_MS).then(|| text.to_owned())
}

/// Whether the median wait of a class is shorter without permits.
fn is_shorter(alone: &Figures, with: &Figures, class: Class) -> bool {
    let medians = alone.wait_ms[class].zip(with.wait_ms[class]);
    medians.is_some_and(|(alone, with)| alone.p50 < with.p50)
}

/// A note on lines of at most [`COLUMNS`].
fn bullet(note: &str) -> String {
    format!("* {}", wrapped(note, COLUMNS - 2).replace('\n', "\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::class::ByClass;
    use crate::commands::demo::figures::Wait;
    use crate::commands::demo::figures::tests::example;

    /// The figures of the README.
    fn of_the_readme() -> Comparison {
        let wait = |p50, p99| Some(Wait { p50, p99 });
        let waits = |interactive, standard, bulk| ByClass { interactive, standard, bulk };
        let Comparison { uncoordinated, coordinated } = example();
        Comparison {
            uncoordinated: Figures {
                utilisation: Some(1.0),
                wait_ms: waits(wait(0.0, 191.5), wait(11.6, 9330.0), wait(94.0, 20_460.0)),
                ..uncoordinated
            },
            coordinated: Figures {
                utilisation: Some(0.999),
                wait_ms: waits(wait(0.6, 80.7), wait(0.6, 67.1), wait(5840.0, 6680.0)),
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
  The lucky few call again and again, while the other workers back off for up to
  20 s. With permits all wait their turn.
* The longest interactive waits with permits are in the first moment. The
  scheduler draws with care on buckets that it has never seen.

What next:
  your own limits  target/release/rampmeter check --print-default > rampmeter.toml
  a scheduler      target/release/rampmeter serve --embedded-nats
  a worker         docs/workers.md, in Rust or Python
  all of it        the quick start in docs/configuration.md";
        assert_eq!(render(&of_the_readme(), "target/release/rampmeter"), golden);
    }

    #[test]
    fn a_row_with_expected_figures_has_no_note() {
        let Comparison { coordinated, .. } = of_the_readme();
        let wait = Some(Wait { p50: 0.5, p99: 2.0 });
        let calm = Figures { wait_ms: ByClass { interactive: wait, standard: wait, bulk: wait }, ..coordinated };
        assert_eq!(notes(&Comparison { uncoordinated: calm, coordinated: calm }), [""; 0]);
    }

    #[test]
    fn the_classes_that_surprise_are_named() {
        let Comparison { uncoordinated, coordinated } = of_the_readme();
        let standard = Some(Wait { p50: 12.0, p99: 70.0 });
        let wait_ms = ByClass { standard, ..coordinated.wait_ms };
        let note = small_calls(&uncoordinated, &Figures { wait_ms, ..coordinated }).unwrap();
        assert!(note.starts_with("The median wait of interactive and standard calls is short"), "{note}");
    }
}

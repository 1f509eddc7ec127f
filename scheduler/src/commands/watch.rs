//! Shows a text repeatedly, until a signal or the reader ends it.

use super::output;
use super::process::signal::asked_to_stop;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// The allowed intervals in seconds. Schedulers answer each time.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.2..=3600.0;

/// Moves the cursor to the upper left corner.
const HOME: &str = "\x1b[H";
/// Ends a line, and clears what an earlier text has left behind it.
const LINE_END: &str = "\x1b[K\n";
/// Clears all below the cursor.
const CLEAR_BELOW: &str = "\x1b[J";

/// Parses an interval in seconds. Fails if it is no number, or out of range.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds".to_owned())?;
    let (least, most) = (INTERVALS.start(), INTERVALS.end());
    if INTERVALS.contains(&seconds) { Ok(seconds) } else { Err(format!("{least} to {most} seconds")) }
}

/// Prints what `look` returns at each interval, over the previous text if `in_place`, else after it. SIGTERM and
/// SIGINT end it without an error. Fails if the reader has gone, or standard output can't be written.
pub(super) async fn watch(every: Duration, in_place: bool, look: impl AsyncFn() -> String) -> anyhow::Result<()> {
    tokio::select! {
        stopped = asked_to_stop() => Ok(stopped.map(drop)?),
        ended = print_on(every, in_place, look) => ended,
    }
}

async fn print_on(every: Duration, in_place: bool, look: impl AsyncFn() -> String) -> anyhow::Result<()> {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let text = look().await;
        output::print(if in_place { redrawn(&text, console::Term::stdout().size()) } else { text })?;
    }
}

/// Returns the text in a form that replaces an earlier one on a terminal of this many rows and columns, without the
/// lines that do not fit, which would scroll the first ones away.
fn redrawn(text: &str, (rows, columns): (u16, u16)) -> String {
    let (mut left, columns) = (usize::from(rows).saturating_sub(1), usize::from(columns).max(1));
    let fits = |line: &&str| {
        let taken = line.chars().count().div_ceil(columns).max(1);
        let is_fitting = taken <= left;
        left = left.saturating_sub(taken);
        is_fitting
    };
    let lines: String = text.lines().take_while(fits).flat_map(|line| [line, LINE_END]).collect();
    format!("{HOME}{lines}{CLEAR_BELOW}")
}

#[cfg(test)]
mod tests {
    use super::{redrawn, seconds};

    #[test]
    fn lines_that_do_not_fit_are_left_out() {
        #[rustfmt::skip]
        let table = [
            ((24, 80), "\x1b[Hone\x1b[K\ntwo and three\x1b[K\n\x1b[K\nfour\x1b[K\n\x1b[J"),
            ((4, 80),  "\x1b[Hone\x1b[K\ntwo and three\x1b[K\n\x1b[K\n\x1b[J"),
            ((4, 8),   "\x1b[Hone\x1b[K\ntwo and three\x1b[K\n\x1b[J"),
            ((3, 8),   "\x1b[Hone\x1b[K\n\x1b[J"),
            ((0, 0),   "\x1b[H\x1b[J"),
        ];
        for (size, expected) in table {
            assert_eq!(redrawn("one\ntwo and three\n\nfour\n", size), expected, "{size:?}");
        }
    }

    #[test]
    fn an_interval_is_a_number_in_a_range() {
        assert_eq!((seconds("0.2"), seconds("3600")), (Ok(0.2), Ok(3600.0)));
        for text in ["0.1", "3601", "nan", "inf", "-1", "hub"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}

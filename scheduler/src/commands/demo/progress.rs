//! The progress of the demo, on standard error.

use super::figures::Figures;
use super::report::{percent, wait};
use super::scenario::CLASSES;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use std::array::from_fn;
use std::io::Write;
use std::time::Duration;

/// The interval of lines if there is no terminal.
const LINES: Duration = Duration::from_secs(5);
/// The template of the bar. The message begins with the time, and has lines below it. All of them
/// fit 80 columns.
const BAR: &str = "{prefix:<13} {bar:50} {msg}";

/// A bar on a terminal, a line every few seconds elsewhere, or nothing.
pub(super) struct Progress {
    bar: ProgressBar,
    is_silent: bool,
    /// The time in the phase at which the next line is due.
    due: Duration,
}

impl Progress {
    /// A bar or lines, depending on standard error; nothing if `is_silent`.
    pub(super) fn new(is_silent: bool) -> Self {
        let bar = if is_silent { ProgressBar::hidden() } else { ProgressBar::new(1) };
        let style = ProgressStyle::with_template(BAR).expect("a valid template").progress_chars("━╸─");
        Progress { bar: bar.with_style(style).with_finish(ProgressFinish::AndClear), is_silent, due: LINES }
    }

    /// Writes a line that stays. A missing reader is no failure.
    pub(super) fn say(&self, text: &str) {
        if !self.is_silent {
            self.bar.suspend(|| writeln!(std::io::stderr(), "{text}").ok());
        }
    }

    /// Shows which part of the demo begins, before it has figures.
    pub(super) fn begin(&mut self, text: &'static str) {
        self.due = LINES;
        self.bar.set_position(0);
        self.bar.set_prefix("");
        self.bar.set_message(format!("\n{text}"));
        if self.bar.is_hidden() {
            self.say(text);
        }
    }

    /// Shows the figures of a phase of this length so far.
    pub(super) fn show(&mut self, phase: &'static str, elapsed: Duration, length: Duration, figures: &Figures) {
        let [time, calls, waits @ ..] = texts(elapsed, length, figures);
        self.bar.set_length(length.as_millis() as u64);
        self.bar.set_position(elapsed.as_millis() as u64);
        self.bar.set_prefix(phase);
        self.bar.set_message(format!("{time}\n{calls}\nwait p50 / p99\n{}", waits.join("\n")));
        if self.bar.is_hidden() && elapsed >= self.due {
            self.due = elapsed + LINES;
            self.say(&line(phase, elapsed, length, figures));
        }
    }
}

/// All figures in one line.
fn line(phase: &str, elapsed: Duration, length: Duration, figures: &Figures) -> String {
    let [time, calls, waits @ ..] = texts(elapsed, length, figures);
    format!("{phase}, {time}: {calls}; wait p50 / p99: {}", waits.join(", "))
}

/// The time, the calls, and the waits of each class.
fn texts(elapsed: Duration, length: Duration, figures: &Figures) -> [String; 5] {
    let Figures { sent, rate_limited, utilisation, wait_ms, .. } = *figures;
    let [interactive, standard, bulk] = from_fn(|place| format!("{} {}", CLASSES[place].name, wait(wait_ms[place])));
    [
        format!("{} of {} s", elapsed.as_secs(), length.as_secs()),
        format!("{sent} requests, {rate_limited} × 429, {} of the bandwidth", percent(utilisation)),
        interactive,
        standard,
        bulk,
    ]
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::example;
    use super::*;

    #[test]
    fn a_line_tells_all() {
        let golden = "with permits, 10 of 25 s: 1100 requests, 0 × 429, 99.5 % of the bandwidth; wait p50 / p99: \
                      interactive 0.8 ms / 2.5 ms, standard 1.0 ms / 4.0 ms, bulk 6.00 s / 7.00 s";
        let (elapsed, length) = (Duration::from_secs(10), Duration::from_secs(25));
        assert_eq!(line("with permits", elapsed, length, &example().coordinated), golden);
    }

    #[test]
    fn the_bar_has_the_time_beside_it_and_the_figures_below() {
        let golden = "10 of 25 s\n1100 requests, 0 × 429, 99.5 % of the bandwidth\nwait p50 / p99\n\
                      interactive 0.8 ms / 2.5 ms\nstandard 1.0 ms / 4.0 ms\nbulk 6.00 s / 7.00 s";
        let mut progress = Progress::new(true);
        progress.show("with permits", Duration::from_secs(10), Duration::from_secs(25), &example().coordinated);
        assert_eq!((progress.bar.prefix(), progress.bar.message()), ("with permits".to_owned(), golden.to_owned()));
        assert_eq!((progress.bar.position(), progress.bar.length()), (10_000, Some(25_000)));
    }

    #[test]
    fn a_line_is_due_every_few_seconds() {
        let mut progress = Progress::new(true);
        for (elapsed, due) in [(4, 5), (5, 10), (9, 10), (12, 17)] {
            progress.show(
                "with permits",
                Duration::from_secs(elapsed),
                Duration::from_secs(25),
                &example().coordinated,
            );
            assert_eq!(progress.due, Duration::from_secs(due), "after {elapsed} s");
        }
    }
}

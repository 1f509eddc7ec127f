//! The progress of the demo, on standard error.

use super::figures::Figures;
use super::report::{percent, wait};
use super::scenario::CLASSES;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use std::array::from_fn;
use std::io::Write;
use std::time::Duration;

/// The interval of lines without a terminal.
const LINES: Duration = Duration::from_secs(5);
/// The template of the bar. The message begins with the time, followed by lines of at most 80 columns.
const BAR: &str = "{prefix:<13} {bar:50} {msg}";

/// A bar on a terminal, lines every few seconds elsewhere, or nothing.
pub(super) struct Progress {
    bar: ProgressBar,
    is_silent: bool,
    /// The time in the phase when the next line is due.
    due: Duration,
}

impl Progress {
    /// Creates a bar or lines, depending on standard error, or nothing if `is_silent`.
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

fn line(phase: &str, elapsed: Duration, length: Duration, figures: &Figures) -> String {
    let [time, calls, waits @ ..] = texts(elapsed, length, figures);
    format!("{phase}, {time}: {calls}; wait p50 / p99: {}", waits.join(", "))
}

/// Formats the time, the calls, and the waits of each class.
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

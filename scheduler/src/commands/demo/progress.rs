//! The progress of the demo, on standard error.

use super::class::Class;
use super::figures::Figures;
use super::text::{percent, wait};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// The interval of lines if there is no terminal.
const LINES: Duration = Duration::from_secs(5);
/// The template of the bar. The message begins with the time, and has lines below it. All of them
/// fit 80 columns.
const BAR: &str = "{prefix:<13} {bar:50} {msg}";

/// A bar on a terminal, a line every few seconds elsewhere, or nothing.
pub struct Progress(Output);

enum Output {
    Bar(ProgressBar),
    /// The time in the phase at which the next line is due.
    Lines(Duration),
    Silent,
}

/// The figures at one moment of a phase.
pub(super) struct View {
    pub(super) phase: &'static str,
    pub(super) elapsed: Duration,
    pub(super) length: Duration,
    pub(super) figures: Figures,
}

impl Progress {
    /// A bar or lines, depending on standard error.
    #[must_use]
    pub fn live() -> Self {
        Progress(if std::io::stderr().is_terminal() { Output::Bar(bar()) } else { Output::Lines(LINES) })
    }

    /// No progress, for `--json`.
    #[must_use]
    pub fn silent() -> Self {
        Progress(Output::Silent)
    }

    /// Tells what the demo is about to do, in lines that stay.
    pub(super) fn introduce(&mut self, text: &str) {
        match &mut self.0 {
            Output::Bar(bar) => bar.println(text),
            Output::Lines(_) => line(text),
            Output::Silent => {}
        }
    }

    /// Shows which part of the demo begins, before it has figures.
    pub(super) fn say(&mut self, text: &'static str) {
        match &mut self.0 {
            Output::Bar(bar) => {
                bar.set_position(0);
                bar.set_prefix("");
                bar.set_message(format!("\n{text}"));
            }
            Output::Lines(due) => {
                *due = LINES;
                line(text);
            }
            Output::Silent => {}
        }
    }

    pub(super) fn show(&mut self, view: &View) {
        match &mut self.0 {
            Output::Bar(bar) => view.draw(bar),
            Output::Lines(due) if view.elapsed >= *due => {
                *due = view.elapsed + LINES;
                line(&view.line());
            }
            Output::Lines(_) | Output::Silent => {}
        }
    }
}

impl View {
    fn draw(&self, bar: &ProgressBar) {
        bar.set_length(self.length.as_millis() as u64);
        bar.set_position(self.elapsed.as_millis() as u64);
        bar.set_prefix(self.phase);
        bar.set_message(self.below_the_bar());
    }

    fn below_the_bar(&self) -> String {
        format!("{}\n{}\nwait p50 / p99\n{}", self.time(), self.calls(), self.waits().join("\n"))
    }

    fn line(&self) -> String {
        let waits = self.waits().join(", ");
        format!("{}, {}: {}; wait p50 / p99: {waits}", self.phase, self.time(), self.calls())
    }

    fn time(&self) -> String {
        format!("{} of {} s", self.elapsed.as_secs(), self.length.as_secs())
    }

    fn calls(&self) -> String {
        let Figures { sent, rate_limited, utilisation, .. } = self.figures;
        format!("{sent} requests, {rate_limited} × 429, {} of the bandwidth", percent(utilisation))
    }

    fn waits(&self) -> [String; 3] {
        Class::ALL.map(|class| format!("{} {}", class.name(), wait(self.figures.wait_ms[class])))
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template(BAR).expect("a valid template").progress_chars("━╸─");
    ProgressBar::new(1).with_style(style).with_finish(ProgressFinish::AndClear)
}

/// Writes a line to standard error, since standard output is for the table. A missing reader is no
/// failure.
fn line(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::figures::tests::example;

    fn view() -> View {
        let (elapsed, length) = (Duration::from_secs(10), Duration::from_secs(25));
        View { phase: "with permits", elapsed, length, figures: example().coordinated }
    }

    #[test]
    fn a_line_tells_all() {
        let golden = "with permits, 10 of 25 s: 1100 requests, 0 × 429, 99.5 % of the bandwidth; wait p50 / p99: \
                      interactive 0.8 ms / 2.5 ms, standard 1.0 ms / 4.0 ms, bulk 6.00 s / 7.00 s";
        assert_eq!(view().line(), golden);
    }

    #[test]
    fn the_bar_has_the_time_beside_it_and_the_figures_below() {
        let golden = [
            "10 of 25 s",
            "1100 requests, 0 × 429, 99.5 % of the bandwidth",
            "wait p50 / p99",
            "interactive 0.8 ms / 2.5 ms",
            "standard 1.0 ms / 4.0 ms",
            "bulk 6.00 s / 7.00 s",
        ];
        assert_eq!(view().below_the_bar().lines().collect::<Vec<_>>(), golden);
        assert!(bar().length().is_some(), "the template is valid");
    }
}

//! Structured logs on standard error: for people on a terminal, JSON for machines.

use super::log_writer::LogWriter;
use clap::ValueEnum;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{IsTerminal, Write, stderr};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Text.
    Text,
    /// One JSON object a line.
    Json,
}

/// Libraries that handle secrets. They log only at `debug` and above, whatever `RAMPMETER_LOG` is: their trace output
/// is for their own authors, and a future version may show content in it.
const SEES_SECRETS: [&str; 7] = ["async_nats", "h2", "hyper", "hyper_rustls", "hyper_util", "rustls", "tokio_rustls"];

static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// Starts logging at the levels of `RAMPMETER_LOG`, or of `default` if it is unset or invalid. Panics are logged
/// too, because the default hook would block on a slow reader of standard error.
///
/// # Errors
/// If the system can't start a thread.
pub fn start(format: LogFormat, default: &str) -> std::io::Result<()> {
    let terminal = stderr().is_terminal();
    let writer = LogWriter::start(stderr(), report_lost)?;
    let writer = WRITER.get_or_init(|| writer);
    let filter = configured_levels().unwrap_or_else(|| default.parse().expect("defaults are levels by target"));
    let logs = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE);
    let logs = logs.with_writer(|| writer.clone()).with_ansi(terminal);
    let logs = logs.log_internal_errors(false);
    let json = format == LogFormat::Json || (format == LogFormat::Auto && !terminal);
    let without_secrets = filter_fn(shows_no_secret);
    // A second start, in tests, changes nothing.
    if json {
        logs.json().finish().with(filter).with(without_secrets).try_init().ok()
    } else {
        logs.finish().with(filter).with(without_secrets).try_init().ok()
    };
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Parses the levels in `RAMPMETER_LOG`, such as `info,async_nats=warn`.
fn configured_levels() -> Option<Targets> {
    let levels = std::env::var("RAMPMETER_LOG").ok().filter(|levels| !levels.is_empty())?;
    levels.parse().ok()
}

/// Writes the last message of a command to standard error, after all log lines. A missing reader is no failure.
pub fn finish(last_message: Option<&str>) {
    let Some(writer) = WRITER.get() else {
        return last_message.into_iter().for_each(|message| drop(writeln!(stderr(), "{message}")));
    };
    if let Some(message) = last_message {
        writer.clone().write_all(format!("{message}\n").as_bytes()).ok();
    }
    writer.flush();
}

/// Returns the number of lines lost because standard error did not take them.
#[must_use]
pub(crate) fn lost_lines() -> u64 {
    WRITER.get().map_or(0, LogWriter::lost_lines)
}

fn report_lost(lost: u64) {
    tracing::warn!(lost, "log lines were lost");
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!(%backtrace, "{panic}");
    } else {
        tracing::error!("{panic}");
    }
}

fn shows_no_secret(line: &Metadata<'_>) -> bool {
    let library = line.target().split("::").next().unwrap_or_default();
    *line.level() != Level::TRACE || !SEES_SECRETS.contains(&library)
}

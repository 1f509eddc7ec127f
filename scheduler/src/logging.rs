//! Structured logs on standard error: for people on a terminal, JSON for machines.

use crate::log_writer::LogWriter;
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

/// Libraries that see secrets pass, in headers, in forms and in the greeting to a NATS server. Whatever `RAMPMETER_LOG` asks for, they
/// say no more than at `debug`: what they show in detail is for their own authors, and nobody promises that the next version
/// shows no content.
const WITNESSES: [&str; 6] = ["async_nats", "hyper", "hyper_rustls", "hyper_util", "rustls", "tokio_rustls"];

/// Writes to standard error, of which a process has one.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// Starts logging what `RAMPMETER_LOG` asks for, `default` if it is not set or wrong. Panics are logged too: told in the usual way, they
/// would wait for whoever reads standard error.
///
/// # Errors
/// If the system gives no thread.
pub fn start(format: LogFormat, default: &str) -> std::io::Result<()> {
    let terminal = stderr().is_terminal();
    let writer = LogWriter::start(stderr(), tell_lost)?;
    let writer = WRITER.get_or_init(|| writer);
    let filter = wanted_levels().unwrap_or_else(|| default.parse().expect("defaults are levels by target"));
    let logs = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE);
    let logs = logs.with_writer(|| writer.clone()).with_ansi(terminal);
    let logs = logs.log_internal_errors(false);
    let json = format == LogFormat::Json || (format == LogFormat::Auto && !terminal);
    let discreet = filter_fn(is_discreet);
    // A second start, in tests, changes nothing.
    if json {
        logs.json().finish().with(filter).with(discreet).try_init().ok()
    } else {
        logs.finish().with(filter).with(discreet).try_init().ok()
    };
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// The levels that `RAMPMETER_LOG` sets, such as `info,async_nats=warn`.
fn wanted_levels() -> Option<Targets> {
    let wanted = std::env::var("RAMPMETER_LOG").ok().filter(|wanted| !wanted.is_empty())?;
    wanted.parse().ok()
}

/// Says the last word of a command on standard error, behind all that was logged. Nobody need read it.
pub fn finish(last_word: Option<&str>) {
    let Some(writer) = WRITER.get() else {
        return last_word.into_iter().for_each(|word| drop(writeln!(stderr(), "{word}")));
    };
    if let Some(word) = last_word {
        writer.clone().write_all(format!("{word}\n").as_bytes()).ok();
    }
    writer.flush();
}

/// How many lines were lost because standard error did not take them.
#[must_use]
pub fn lost_lines() -> u64 {
    WRITER.get().map_or(0, LogWriter::lost_lines)
}

fn tell_lost(lost: u64) {
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

fn is_discreet(line: &Metadata<'_>) -> bool {
    let library = line.target().split("::").next().unwrap_or_default();
    *line.level() != Level::TRACE || !WITNESSES.contains(&library)
}

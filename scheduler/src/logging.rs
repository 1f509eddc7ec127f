//! Structured logs on standard error: for people on a terminal, JSON for machines.

use clap::ValueEnum;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

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

/// Starts logging what `RAMPMETER_LOG` asks for, `default` if it is not set or wrong.
pub fn start(format: LogFormat, default: &str) {
    let terminal = std::io::stderr().is_terminal();
    let filter = EnvFilter::try_from_env("RAMPMETER_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(terminal);
    let json = format == LogFormat::Json || (format == LogFormat::Auto && !terminal);
    // A second start, in tests, changes nothing.
    if json {
        logs.json().try_init().ok()
    } else {
        logs.try_init().ok()
    };
}

//! Structured logs on standard error: for people on a terminal, JSON for machines.

use clap::ValueEnum;
use std::io::IsTerminal;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
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
const WITNESSES: [&str; 7] = ["async_nats", "hyper", "hyper_rustls", "hyper_util", "reqwest", "rustls", "tokio_rustls"];

/// Starts logging what `RAMPMETER_LOG` asks for, `default` if it is not set or wrong.
pub fn start(format: LogFormat, default: &str) {
    let terminal = std::io::stderr().is_terminal();
    let filter = EnvFilter::try_from_env("RAMPMETER_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(terminal);
    let json = format == LogFormat::Json || (format == LogFormat::Auto && !terminal);
    let discreet = filter_fn(is_discreet);
    // A second start, in tests, changes nothing.
    if json {
        logs.json().finish().with(discreet).try_init().ok()
    } else {
        logs.finish().with(discreet).try_init().ok()
    };
}

fn is_discreet(line: &Metadata<'_>) -> bool {
    let library = line.target().split("::").next().unwrap_or_default();
    *line.level() != Level::TRACE || !WITNESSES.contains(&library)
}

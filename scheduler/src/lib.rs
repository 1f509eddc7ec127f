//! Rampmeter's scheduler: NATS, KV, HTTP, metrics and the command line around the core.
//!
//! Everything here does, nothing decides: requests are translated and handed to
//! `rampmeter-scheduler-core`, its answers are translated and sent.

pub mod cli;
pub mod commands;
pub mod config;
pub mod connection;
pub mod denials;
mod log_writer;
pub mod logging;
pub mod provider;
pub mod serve;
pub mod store;

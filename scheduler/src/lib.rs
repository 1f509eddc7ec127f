//! Rampmeter's scheduler: NATS, KV, HTTP, metrics and the command line around the core.
//!
//! This crate acts and decides nothing: it translates requests for `rampmeter-scheduler-core`, and
//! translates and sends the core's answers.

pub mod cli;
pub mod commands;
pub mod config;
pub mod connection;
pub mod denials;
pub mod error_text;
pub mod front;
mod log_throttle;
mod log_writer;
pub mod logging;
mod metrics_page;
pub mod provider;
pub mod running;
mod samples;
pub mod serve;
pub mod store;
pub mod telemetry;

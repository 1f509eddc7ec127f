//! Rampmeter's scheduler: NATS, KV, HTTP, metrics and the command line around the core.
//!
//! This crate acts and decides nothing: it translates requests for `rampmeter-scheduler-core`, and
//! translates and sends the core's answers.

pub mod cli;
pub mod commands;
pub mod running;

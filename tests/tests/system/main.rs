//! The system from the outside: real programs on real servers.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod account;
mod clients;
mod commands;
mod http;
mod jobs;
mod limits;
mod messages;
mod nats;
mod proxy;
mod store;

/// The program, as it ships.
const RAMPMETER: &str = env!("CARGO_BIN_EXE_rampmeter-under-test");
/// A worker that runs jobs.
const JOBS_WORKER: &str = env!("CARGO_BIN_EXE_jobs-worker");
/// A worker that takes a permit and keeps it.
const PERMIT_HOLDER: &str = env!("CARGO_BIN_EXE_permit-holder");

/// What the program prints with these arguments and this server.
///
/// # Errors
/// What it complains of, if it fails.
async fn printed_at(nats: &prelude::Server, arguments: &[&str]) -> Result<String, String> {
    prelude::process::printed(RAMPMETER, &[arguments, &["--nats", nats.url()]].concat()).await
}

/// What most of these tests use.
mod prelude {
    pub(crate) use crate::{RAMPMETER, printed_at};
    pub(crate) use rampmeter_tests::prelude::*;
}

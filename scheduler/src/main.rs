//! The command line.

use clap::Parser;
use rampmeter_scheduler::cli::Cli;
use rampmeter_scheduler::commands::output::is_reader_gone;
use rampmeter_scheduler::{error_text, logging};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(cli.run()));
    let done = done.or_else(|error| if is_reader_gone(&error) { Ok(()) } else { Err(error) });
    if let Err(error) = &done {
        tracing::debug!(?error, "failed");
    }
    let last_message = done.as_ref().err().map(|error| format!("rampmeter: {}", error_text::with_causes(&**error)));
    logging::finish(last_message.as_deref());
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! The command line.

use clap::Parser;
use rampmeter_scheduler::cli::Cli;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(cli.run()));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::debug!(?error, "failed");
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the last word of a command")]
fn complain(error: &anyhow::Error) {
    eprintln!("rampmeter: {error:#}");
}

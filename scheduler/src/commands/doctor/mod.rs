//! `rampmeter doctor`

mod finding;
mod fleet;
mod resource;

use super::nats_arg::NatsArg;
use super::output;
use finding::{page, ranked};
use rampmeter_protocol::name::Name;
use serde_json::json;
use std::process::ExitCode;

/// What `doctor` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 if nothing is wrong, 1 if something is.")]
pub struct DoctorArgs {
    /// The resource; all resources, if none is named.
    resource: Option<Name>,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

/// Prints the faults, the most harmful first, and changes nothing. The exit code shows whether there are any.
///
/// # Errors
/// If standard output can't be written. Any other failure is a finding.
pub async fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let findings = ranked(fleet::symptoms(&args.nats, args.resource.as_ref()).await);
    let is_healthy = findings.is_empty();
    match (args.json, is_healthy) {
        (true, _) => output::json(&json!({"healthy": is_healthy, "findings": findings}))?,
        (false, true) => output::line("nothing is wrong")?,
        (false, false) => output::print(page(&findings))?,
    }
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! The command line.

use crate::commands::output::{error_text, is_reader_gone};
use crate::commands::process::logging::{self, LogFormat};
use crate::commands::{
    check, demo, doctor, explain, import, init, jobs, limits, limits::apply, limits::forecast, limits::limit_orders,
    price, proxy, pu, purge, serve, shell, simulate, state, status, upstream, usage,
};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// The commands by task, since clap lists them in one block, and the exit codes.
const BY_TASK: &str = "\
By task:
  Run                   serve, proxy, jobs
  Try out               demo, simulate, upstream
  Write limits          init, check, import, pu, price
  Change limits         apply, limits
  Look                  doctor, status, explain, usage, forecast, state
  Intervene             purge, thaw, freeze, drain, empty
  Install               completions, man

Exit codes:
  0                     done
  1                     not done, as the last line on standard error says; of `doctor`: something is wrong
  2                     the command line is wrong";

/// Runs the binary `rampmeter`. It is in the library, since each binary that awaits its futures compiles them.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(cli.run()));
    let done = done.or_else(|error| if is_reader_gone(&error) { Ok(ExitCode::SUCCESS) } else { Err(error) });
    if let Err(error) = &done {
        tracing::debug!(?error, "failed");
    }
    let last_message = done.as_ref().err().map(|error| format!("rampmeter: {}", error_text::with_causes(&**error)));
    logging::finish(last_message.as_deref());
    done.unwrap_or(ExitCode::FAILURE)
}

/// Permits for rate-limited APIs: thousands of workers, one set of limits, no 429.
#[derive(Debug, Parser)]
#[command(name = "rampmeter", version, propagate_version = true, max_term_width = 100, after_help = BY_TASK)]
pub struct Cli {
    /// How log lines look; `RAMPMETER_LOG`, such as `debug`, sets what is logged.
    #[arg(long, global = true, value_enum, default_value_t, env = "RAMPMETER_LOG_FORMAT", help_heading = "Log")]
    log_format: LogFormat,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the scheduler.
    Serve(serve::ServeArgs),
    /// Hold requests to an API until their permits start: programs change one URL.
    Proxy(proxy::ProxyArgs),
    /// See it work: NATS, scheduler, upstream and workers in one command, with and without permits.
    Demo(demo::DemoArgs),
    /// Print a configuration for a service whose limits are known.
    Init(init::PresetArgs),
    /// Validate a configuration, or print one to start from.
    Check(check::CheckArgs),
    /// Change the limits of resources while schedulers run: the whole file counts, or nothing.
    Apply(apply::ApplyArgs),
    /// Show the limits that count now, or go back to those of the configuration.
    Limits(limits::LimitsArgs),
    /// Make a queue of jobs, and look at it: which are delayed, running and dead.
    Jobs(jobs::JobsArgs),
    /// Turn the rates of another limiter into a configuration.
    Import(import::ImportArgs),
    /// Say what is wrong, in order of harm, with the evidence and the command that mends it.
    Doctor(doctor::DoctorArgs),
    /// Show levels, queues and counters of running schedulers.
    Status(status::StatusArgs),
    /// Show what clients have used, day by day.
    Usage(usage::UsageArgs),
    /// Tell when long limits end if they are used as in the last weeks.
    Forecast(forecast::ForecastArgs),
    /// Show what the store holds of each resource, or write it again.
    State(state::StateArgs),
    /// Tell why a request waits: the limit that holds it, the requests ahead of it, and its likely start.
    Explain(explain::ExplainArgs),
    /// End the waits of all requests for a resource, or of those of one client or class.
    Purge(purge::PurgeArgs),
    /// End the pauses of a resource's limits that the upstream is said to demand.
    Thaw(limit_orders::ThawArgs),
    /// Pause a resource's limits: no call that takes from them starts for a while.
    Freeze(limit_orders::FreezeArgs),
    /// Let an account of a pool make no calls for a while: the others make them.
    Drain(limit_orders::DrainArgs),
    /// Set the levels of limits to zero, as after the store was put back to an older state.
    Empty(limit_orders::EmptyArgs),
    /// Simulate limits and workers in virtual time, with Rampmeter and without.
    Simulate(simulate::SimulateArgs),
    /// Calculate the processing units of a Sentinel Hub request, from parameters or from its body.
    Pu(pu::PuArgs),
    /// Calculate what a call to a language model costs, and why.
    Price(price::PriceArgs),
    /// Run an HTTP service that enforces rate limits, to try workers against.
    Upstream(upstream::UpstreamArgs),
    /// Print what a shell needs to complete commands and options.
    Completions(shell::CompletionsArgs),
    /// Print the manual page, or write one for each command.
    Man(shell::ManArgs),
}

impl Command {
    /// Returns the log levels if nothing else is set.
    fn log_levels(&self) -> &'static str {
        #[expect(clippy::wildcard_enum_match_arm, reason = "all others say what is wrong, and nothing more")]
        match self {
            Command::Serve(_) | Command::Proxy(_) => "info,async_nats=warn",
            Command::Status(args) => args.log_levels(),
            _ => "warn",
        }
    }
}

impl Cli {
    /// Runs the command. Only `doctor` may end without an error in another exit code than success.
    ///
    /// # Errors
    /// The failure, as text for people.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        logging::start(self.log_format, self.command.log_levels())?;
        match self.command {
            Command::Serve(args) => serve::run(args).await,
            Command::Proxy(args) => proxy::run(args).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Init(args) => init::run(&args),
            Command::Check(args) => check::run(&args).await,
            Command::Apply(args) => apply::run(args).await,
            Command::Limits(args) => limits::run(args).await,
            Command::Jobs(args) => jobs::run(args).await,
            Command::Import(args) => import::run(args),
            Command::Doctor(args) => return doctor::run(args).await,
            Command::Status(args) => status::run(args).await,
            Command::Usage(args) => usage::run(args).await,
            Command::Forecast(args) => forecast::run(args).await,
            Command::State(args) => state::run(args).await,
            Command::Explain(args) => explain::run(args).await,
            Command::Purge(args) => purge::run(args).await,
            Command::Thaw(args) => limit_orders::thaw(args).await,
            Command::Freeze(args) => limit_orders::freeze(args).await,
            Command::Drain(args) => limit_orders::drain(args).await,
            Command::Empty(args) => limit_orders::empty(args).await,
            Command::Simulate(args) => simulate::run(&args),
            Command::Pu(args) => pu::run(&args),
            Command::Price(args) => price::run(&args),
            Command::Upstream(args) => upstream::run(args).await,
            Command::Completions(args) => shell::completions(&args, Cli::command()),
            Command::Man(args) => shell::man(&args, Cli::command()),
        }
        .map(|()| ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::{BY_TASK, Cli};
    use clap::CommandFactory;

    #[test]
    fn each_command_has_one_task() {
        let mut by_task: Vec<&str> = BY_TASK
            .lines()
            .skip(1)
            .take_while(|line| !line.is_empty())
            .flat_map(|line| line[24..].split(", "))
            .collect();
        by_task.sort_unstable();
        let command = Cli::command();
        let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        all.sort_unstable();
        assert_eq!(by_task, all);
    }
}

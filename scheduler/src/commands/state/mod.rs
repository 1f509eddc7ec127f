//! `rampmeter state`

mod init;
mod show;

use super::nats_arg::NatsArg;
use rampmeter_protocol::name::Name;
use std::path::PathBuf;

/// What `state` takes.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct StateArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Write fresh state for resources: after it was lost on purpose, or when the upstream's own levels are known.
    Init(InitArgs),
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The resource; all in the store, if none is named.
    resource: Option<Name>,
    /// Print an array of what the store holds.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

#[derive(Debug, clap::Args)]
struct InitArgs {
    /// The resource; all in the configuration, if none is named.
    resource: Option<Name>,
    /// The configuration with the limits.
    #[arg(long, value_name = "FILE", default_value = "rampmeter.toml", env = "RAMPMETER_CONFIG")]
    config: PathBuf,
    /// How full every bucket is: `empty` is safe whatever happened, `full` admits a whole burst.
    #[arg(long, value_enum)]
    level: Level,
    /// Even if a scheduler leads the resource: it steps down and goes on from the new state.
    #[arg(long)]
    force: bool,
    /// The NATS server, in place of `nats.url`.
    #[arg(long, value_name = "URL", env = "RAMPMETER_NATS", hide_env_values = true)]
    nats: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Level {
    /// Nothing can be spent before it has come in.
    Empty,
    /// Everything can be spent at once.
    Full,
}

/// Shows what the store holds, or writes it anew.
///
/// # Errors
/// If NATS can't be reached, the store does not answer, or somebody leads what is to be written.
pub async fn run(args: StateArgs) -> anyhow::Result<()> {
    match args.action {
        None => show::run(args.show).await,
        Some(Action::Init(init)) => init::run(init).await,
    }
}

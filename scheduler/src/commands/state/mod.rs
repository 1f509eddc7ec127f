//! `rampmeter state`

mod init;
mod show;

use init::InitArgs;
use show::ShowArgs;

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

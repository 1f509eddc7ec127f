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
    /// Write fresh state for resources: after a deliberate loss, or when the upstream's own levels are known.
    Init(InitArgs),
}

/// Shows the stored state, or writes fresh state.
///
/// # Errors
/// If NATS can't be reached, the store does not answer, or a scheduler leads a resource to be written.
pub async fn run(args: StateArgs) -> anyhow::Result<()> {
    match args.action {
        None => show::run(args.show).await,
        Some(Action::Init(init)) => init::run(init).await,
    }
}

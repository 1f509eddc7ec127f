//! `rampmeter import`

mod governor;

/// What `import` takes.
#[derive(Debug, clap::Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    /// Rates files of EOM Governor: prints a resource with a limit for each rule.
    Governor(governor::GovernorArgs),
}

/// Prints a configuration.
///
/// # Errors
/// What can't be read, or can't be kept to.
pub fn run(args: &ImportArgs) -> anyhow::Result<()> {
    match &args.from {
        From::Governor(args) => governor::run(args),
    }
}

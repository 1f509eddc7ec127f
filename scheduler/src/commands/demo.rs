//! `rampmeter demo`

/// What `demo` takes.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Placeholder.
///
/// # Errors
/// None.
pub async fn run(_args: Args) -> anyhow::Result<()> {
    Ok(())
}

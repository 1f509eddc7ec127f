//! `rampmeter bench`

/// What `bench` takes.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Placeholder.
///
/// # Errors
/// None.
pub async fn run(_args: Args) -> anyhow::Result<()> {
    Ok(())
}

//! `rampmeter check`

use crate::config;
use std::path::PathBuf;

/// What `check` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration.
    #[arg(long, value_name = "FILE", default_value = "rampmeter.toml", env = "RAMPMETER_CONFIG")]
    config: PathBuf,
    /// Print a commented configuration to start from, and check nothing.
    #[arg(long)]
    print_default: bool,
}

/// Says that the configuration is fine.
///
/// # Errors
/// File, line, column and reason of its first fault.
#[expect(clippy::print_stdout, reason = "what the command is for")]
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.print_default {
        print!("{}", config::DEFAULT);
        return Ok(());
    }
    let config = config::load(&args.config)?;
    for note in &config.notes {
        println!("note: {note}");
    }
    for resource in &config.resources {
        let (limits, classes) = (resource.limits().len(), resource.classes().len());
        println!("resource `{}`: {limits} limits, {classes} classes", resource.name());
    }
    println!("{}: valid", args.config.display());
    Ok(())
}

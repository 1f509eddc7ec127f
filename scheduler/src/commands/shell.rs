//! `rampmeter completions` and `rampmeter man`

use super::output;
use anyhow::Context;
use std::path::PathBuf;

/// What `completions` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example, in bash: source <(rampmeter completions bash)")]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// What `man` takes.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write the page of each command into this folder, such as `/usr/local/share/man/man1`. Without it,
    /// the first page is printed.
    #[arg(value_name = "FOLDER")]
    into: Option<PathBuf>,
}

/// Prints the shell script that completes the command line of `cli`.
///
/// # Errors
/// If standard output can't be written.
pub fn completions(args: &CompletionsArgs, mut cli: clap::Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "rampmeter", &mut script);
    output::print(String::from_utf8(script)?)
}

/// Prints the manual page of `cli`, or writes those of all commands.
///
/// # Errors
/// If the folder or standard output can't be written.
pub fn man(args: &ManArgs, cli: clap::Command) -> anyhow::Result<()> {
    if let Some(folder) = &args.into {
        return clap_mangen::generate_to(cli, folder).with_context(|| format!("{}", folder.display()));
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(cli).render(&mut page)?;
    output::print(String::from_utf8(page)?)
}

//! Asks before a command takes something away.

use super::output;
use anyhow::bail;
use std::io::{IsTerminal, Write, stderr, stdin};

/// How a command that takes something away begins.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Consent {
    /// Do not ask. Nothing is asked without a terminal.
    #[arg(short, long)]
    yes: bool,
    /// Say what would be done, and change nothing.
    #[arg(long, conflicts_with = "yes")]
    pub(super) dry_run: bool,
}

impl Consent {
    /// Returns whether to do `deed`, such as "end 3 waits of `api`", which is evaluated only if somebody reads it.
    /// Fails if the evaluation fails, or the user declines.
    pub(super) async fn to(self, deed: impl Future<Output = anyhow::Result<String>>) -> anyhow::Result<bool> {
        if self.dry_run {
            output::line(format_args!("would {}", deed.await?))?;
        } else if self.is_asked() {
            ask(&deed.await?)?;
        }
        Ok(!self.dry_run)
    }

    /// Asks the user at the terminal, if there is one, whether to do `deed`. Fails if the user declines.
    pub(super) fn confirm(self, deed: &str) -> anyhow::Result<()> {
        if self.is_asked() { ask(deed) } else { Ok(()) }
    }

    fn is_asked(self) -> bool {
        !self.yes && stdin().is_terminal() && stderr().is_terminal()
    }
}

fn ask(deed: &str) -> anyhow::Result<()> {
    write!(stderr(), "This will {deed}. Go on? [y/N] ")?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("nothing was done"),
    }
}

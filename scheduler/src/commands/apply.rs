//! `rampmeter apply`

use super::nats_arg::NatsArg;
use super::rules_edit::{Present, Terms, replace};
use crate::config::{Applied, Rules, parse_rules};
use crate::connection::connect;
use crate::store::RuleStore;
use anyhow::Context;
use rampmeter_protocol::clock::unix_ms;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What `apply` takes.
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    /// The rules, as in the configuration: `[[resource]]` with `name` and all `[[resource.limit]]`;
    /// `-` is standard input.
    ///
    /// Resources that the file does not name keep their limits.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Write only if the rules have this revision, as `--dry-run` or `rampmeter limits get` showed
    /// it; 0 means no rules.
    #[arg(long, value_name = "N")]
    if_revision: Option<u64>,
    /// The name that `rampmeter status` shows as the author.
    #[arg(long, value_name = "NAME", env = "USER", default_value = "somebody")]
    by: String,
    #[command(flatten)]
    nats: NatsArg,
}

/// Changes the limits of all resources in a file, or of none.
///
/// # Errors
/// The first fault in the file with its place, or why nothing could be written.
pub async fn run(args: ApplyArgs) -> anyhow::Result<()> {
    let text = text(&args.file)?;
    let rules = with_author(parse_rules(&args.file, &text)?, &args, &text);
    let client = connect(&args.nats.table(), "rampmeter-apply").await?;
    let store = RuleStore::open_beside_state(&client, &args.nats.prefix).await?;
    let present = Present::read(&store).await?;
    let after = present.rules.with(&rules);
    let terms = Terms { dry_run: args.dry_run, if_revision: args.if_revision };
    replace((&client, &args.nats.prefix, &store), &present, &after, terms).await
}

fn text(file: &Path) -> anyhow::Result<String> {
    if file != Path::new("-") {
        return std::fs::read_to_string(file).with_context(|| format!("{}: can't be read", file.display()));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input can't be read")?;
    Ok(text)
}

/// The rules with a note on their author, time and file.
fn with_author(mut rules: Rules, args: &ApplyArgs, text: &str) -> Rules {
    let sha256 = Sha256::digest(text).iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a string takes everything");
        digits
    });
    let now = i64::try_from(unix_ms() / 1000).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let at = now.map_or_else(String::new, |now| now.to_string());
    let applied = Applied { by: args.by.clone(), at, file: args.file.display().to_string(), sha256 };
    rules.resources.iter_mut().for_each(|rules| rules.applied = Some(applied.clone()));
    rules
}

//! `rampmeter apply`

use super::in_force::limits_of_leaders;
use super::rules_edit::{EditConditions, replace};
use crate::commands::nats_arg::NatsArg;
use crate::commands::output;
use crate::commands::schedulers::Schedulers;
use anyhow::{Context, bail};
use rampmeter_config::{ResourceRules, Rules, parse_rules};
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::suggestion::{did_you_mean, quoted};
use rampmeter_serve::limits::present_rules::{PresentRules, written_by};
use rampmeter_serve::limits::rules_desk::RulesDesk;
use rampmeter_store::RulesRevision;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What `apply` takes.
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    /// The rules, as in the configuration: `[[resource]]` with `name` and all `[[resource.limit]]`;
    /// `-` is standard input.
    ///
    /// Resources that the file does not name keep their limits.
    #[arg(value_name = "FILE", required_unless_present = "file")]
    rules: Option<PathBuf>,
    /// The same, by name.
    #[arg(short, long, value_name = "FILE", conflicts_with = "rules")]
    file: Option<PathBuf>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Take resources too that no scheduler leads yet, and that have no rules.
    #[arg(long)]
    new: bool,
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

impl ApplyArgs {
    fn path(&self) -> &Path {
        self.rules.as_deref().or(self.file.as_deref()).expect("one of both is required")
    }
}

/// Changes the limits of all resources in a file, or of none.
///
/// # Errors
/// All faults in the file with their places, or why nothing could be written.
pub async fn run(args: ApplyArgs) -> anyhow::Result<()> {
    let file = args.path();
    let text = text(file)?;
    let rules = written_by(parse_rules(file, &text)?, &args.by, &file.display().to_string(), &text);
    let schedulers = Schedulers::connect(&args.nats, "rampmeter-apply").await?;
    let (desk, mut present) = RulesDesk::open(schedulers.client(), schedulers.subjects()).await?;
    present.in_force = limits_of_leaders(&schedulers, rules.names()).await?;
    if !args.new {
        refuse_unknown(&schedulers, &present, &rules).await?;
    }
    for note in rules.resources.iter().filter_map(uncounted_requests) {
        output::line_if_read(note);
    }
    let after = present.rules.with(&rules);
    let conditions = EditConditions { dry_run: args.dry_run, if_revision: args.if_revision.map(RulesRevision::new) };
    replace((&schedulers, &desk), &present, &after, conditions).await
}

/// # Errors
/// If a resource has neither a leader nor rules, nor a scheduler that knows it.
async fn refuse_unknown(schedulers: &Schedulers, present: &PresentRules, rules: &Rules) -> anyhow::Result<()> {
    let has_limits = |name: &Name| present.in_force.of(name).is_some() || present.rules.of(name).is_some();
    let unknown: Vec<&Name> = rules.names().filter(|name| !has_limits(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let known = schedulers.known_resources().await?;
    let Some(unknown) = unknown.into_iter().find(|name| !known.contains(name)) else { return Ok(()) };
    let names = || known.iter().map(|name| &**name);
    let there_are = match known.is_empty() {
        true => "no scheduler answers".to_owned(),
        false => format!("schedulers have {}{}", quoted(names()), did_you_mean(unknown, names())),
    };
    bail!("no scheduler has a resource `{unknown}`, and `--new` is for those to come; {there_are}")
}

/// The remark that requests without a `cost` may be refused under these limits.
fn uncounted_requests(rules: &ResourceRules) -> Option<String> {
    let counts = rules.limits.iter().any(|limit| &*limit.unit == REQUESTS);
    (!counts).then(|| {
        format!(
            "note: no limit of `{}` counts `{REQUESTS}`: requests without a `cost` are refused, unless the \
             configuration says `uncounted = \"allow\"`",
            rules.name
        )
    })
}

fn text(file: &Path) -> anyhow::Result<String> {
    if file != Path::new("-") {
        return std::fs::read_to_string(file).with_context(|| format!("{}: can't be read", file.display()));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input can't be read")?;
    Ok(text)
}

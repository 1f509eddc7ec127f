//! `rampmeter apply`

use super::rules_edit::{EditConditions, RulesEdit};
use crate::commands::nats_arg::NatsArg;
use crate::commands::output;
use anyhow::{Context, bail};
use rampmeter_config::{ResourceRules, Rules, parse_rules};
use rampmeter_nats::servers::Login;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::suggestion::{did_you_mean, quoted};
use rampmeter_serve::limits::present_rules::written_by;
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
    #[command(flatten)]
    conditions: EditConditions,
    /// Take resources too that no scheduler leads yet, and that have no rules.
    #[arg(long)]
    new: bool,
    /// The name that `rampmeter status` shows as the author. Without it, the user in the URL of the
    /// NATS server, or else that of this machine.
    #[arg(long = "as", alias = "by", value_name = "NAME")]
    author: Option<String>,
    #[command(flatten)]
    nats: NatsArg,
}

impl ApplyArgs {
    fn path(&self) -> &Path {
        self.rules.as_deref().or(self.file.as_deref()).expect("one of both is required")
    }
}

/// Changes the limits of all resources in a file, or of none of them.
///
/// # Errors
/// All faults in the file with their places, or why nothing could be written.
pub async fn run(args: ApplyArgs) -> anyhow::Result<()> {
    let file = args.path();
    let text = text(file)?;
    let rules = written_by(parse_rules(file, &text)?, &author(&args)?, &file.display().to_string(), &text);
    let mut edit = RulesEdit::open(&args.nats, "rampmeter-apply").await?;
    edit.ask_leaders(rules.names()).await?;
    if !args.new {
        refuse_unknown(&edit, &rules).await?;
    }
    for note in rules.resources.iter().filter_map(uncounted_requests) {
        output::line_if_read(note);
    }
    edit.replace(&edit.present.rules.with(&rules), args.conditions).await
}

fn author(args: &ApplyArgs) -> anyhow::Result<String> {
    let of_nats = || match args.nats.table()?.0.servers()?.login()? {
        Some(Login::User(user, _)) => Ok::<_, anyhow::Error>(Some(user)),
        Some(Login::Token(_)) | None => Ok(None),
    };
    let stated = args.author.clone().map_or_else(of_nats, |author| Ok(Some(author)))?;
    Ok(stated.or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "somebody".to_owned()))
}

/// Fails if a resource has neither a leader nor rules, and no scheduler knows it.
async fn refuse_unknown(RulesEdit { schedulers, present, .. }: &RulesEdit, rules: &Rules) -> anyhow::Result<()> {
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

/// Returns the remark that requests without a `cost` may be refused under these limits.
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

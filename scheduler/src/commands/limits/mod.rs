//! `rampmeter limits`

pub mod apply;
pub(super) mod discovered_limits;
pub mod forecast;
pub(super) mod in_force;
pub(super) mod limit_end;
pub mod limit_orders;
pub(super) mod rules_edit;

use super::nats_arg::NatsArg;
use super::output;
use super::schedulers::Schedulers;
use anyhow::{Context, bail};
use in_force::limits_of_leaders;
use rampmeter_config::{ResourceRules, Rules};
use rampmeter_protocol::name::Name;
use rampmeter_serve::limits::present_rules::PresentRules;
use rampmeter_serve::limits::rules_desk::RulesDesk;
use rampmeter_store::RulesRevision;
use rules_edit::{EditConditions, replace};
use serde_json::{Value, json};

/// What `limits` takes.
#[derive(Debug, clap::Args)]
pub struct LimitsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print the limits that count now, as a file that `rampmeter apply` takes.
    Get(GetArgs),
    /// Remove the limits that were applied to a resource: those of the configuration count again.
    Reset(ResetArgs),
}

#[derive(Debug, clap::Args)]
struct GetArgs {
    /// The resource; all, if none is named.
    resource: Option<Name>,
    /// Print only the limits that were found (`discover`), as a configuration that says what each
    /// was found by.
    #[arg(long, conflicts_with = "json")]
    learned: bool,
    /// Print an object with the revision and all resources.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

#[derive(Debug, clap::Args)]
struct ResetArgs {
    /// The resource.
    resource: Name,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Write only if the rules have this revision.
    #[arg(long, value_name = "N")]
    if_revision: Option<u64>,
    #[command(flatten)]
    nats: NatsArg,
}

/// Shows the limits that count, or removes those that were applied to a resource.
///
/// # Errors
/// If the store does not answer, or has no rules for the resource.
pub async fn run(args: LimitsArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Get(get) => show(get).await,
        Action::Reset(args) => reset(args).await,
    }
}

async fn show(args: GetArgs) -> anyhow::Result<()> {
    let schedulers = Schedulers::connect(&args.nats, "rampmeter-limits").await?;
    let (_, mut present) = RulesDesk::open(schedulers.client(), schedulers.subjects()).await?;
    let mut names: Vec<Name> = match &args.resource {
        Some(name) => vec![name.clone()],
        None => schedulers.known_resources().await?,
    };
    names.extend(present.rules.names().filter(|_| args.resource.is_none()).cloned());
    names.sort();
    names.dedup();
    if args.learned {
        return discovered_limits::show(&schedulers, &names).await;
    }
    present.in_force = limits_of_leaders(&schedulers, names.iter()).await?;
    let shown: Vec<ShownLimits> = names.iter().filter_map(|name| ShownLimits::of(&present, name)).collect();
    if let (Some(name), []) = (&args.resource, &*shown) {
        let others = schedulers.others_than(name).await;
        bail!("no running scheduler owns resource `{name}`, and no limits were applied to it{others}");
    }
    if args.json {
        return output::json(&as_json(&present, &shown));
    }
    output::line(format_args!("# revision {}", present.revision))?;
    if let Some(reason) = &present.refused {
        let reason = reason.replace('\n', "\n# ");
        output::line(format_args!("# It is not valid and does not count; this is what does. {reason}"))?;
    }
    if shown.is_empty() {
        output::line("# No scheduler answers, and no limits were applied.")?;
    }
    for ShownLimits { source, rules } in &shown {
        let text = Rules { resources: vec![rules.clone()] }.text();
        output::line(format_args!("\n# {}\n{}", source.remark(), text.trim_end()))?;
    }
    Ok(())
}

/// The limits of a resource, and where they come from.
struct ShownLimits {
    source: LimitsSource,
    rules: ResourceRules,
}

#[derive(Clone, Copy)]
enum LimitsSource {
    /// The limits were applied, and count.
    Rules,
    /// The limits were applied, and no scheduler leads the resource.
    RulesOfNoLeader,
    /// The configuration's limits count, because no others were applied.
    Configuration,
}

impl LimitsSource {
    fn name(self) -> &'static str {
        match self {
            LimitsSource::Rules | LimitsSource::RulesOfNoLeader => "rules",
            LimitsSource::Configuration => "configuration",
        }
    }

    fn remark(self) -> &'static str {
        match self {
            LimitsSource::Rules => "These limits were applied, and count.",
            LimitsSource::RulesOfNoLeader => "These limits were applied. No scheduler leads the resource now.",
            LimitsSource::Configuration => "These limits count, by the configuration: none were applied.",
        }
    }
}

impl ShownLimits {
    /// The limits of `name` in force; nothing if neither a leader nor the store knows it.
    fn of(present: &PresentRules, name: &Name) -> Option<ShownLimits> {
        let applied = present.rules.of(name);
        Some(match (present.in_force.of(name), applied) {
            (None, None) => return None,
            (None, Some(rules)) => ShownLimits { source: LimitsSource::RulesOfNoLeader, rules: rules.clone() },
            (Some(in_force), None) => ShownLimits { source: LimitsSource::Configuration, rules: in_force.clone() },
            (Some(in_force), Some(rules)) => ShownLimits {
                source: LimitsSource::Rules,
                rules: ResourceRules { applied: rules.applied.clone(), ..in_force.clone() },
            },
        })
    }
}

fn chosen(rules: &Rules, resource: &Name) -> anyhow::Result<()> {
    let own = rules.of(resource);
    own.map(drop).with_context(|| format!("no limits were applied to `{resource}`: those of the configuration count"))
}

fn as_json(present: &PresentRules, shown: &[ShownLimits]) -> Value {
    let resource = |ShownLimits { source, rules }: &ShownLimits| {
        let ResourceRules { name, applied, written, .. } = rules;
        json!({"name": name, "source": source.name(), "applied": applied, "limits": written})
    };
    let resources: Vec<Value> = shown.iter().map(resource).collect();
    json!({"revision": present.revision, "refused": present.refused, "resources": resources})
}

async fn reset(args: ResetArgs) -> anyhow::Result<()> {
    let schedulers = Schedulers::connect(&args.nats, "rampmeter-limits").await?;
    let (desk, present) = RulesDesk::open(schedulers.client(), schedulers.subjects()).await?;
    chosen(&present.rules, &args.resource)?;
    let conditions = EditConditions { dry_run: args.dry_run, if_revision: args.if_revision.map(RulesRevision::new) };
    let after = present.rules.without(&args.resource);
    replace((&schedulers, &desk), &present, &after, conditions).await
}

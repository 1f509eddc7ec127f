//! `rampmeter limits`

pub mod apply;
pub(super) mod discovered_limits;
pub mod forecast;
pub(super) mod limit_end;
pub mod limit_orders;
pub(super) mod rules_edit;

use super::nats_arg::NatsArg;
use super::output;
use anyhow::bail;
use rampmeter_config::{ResourceRules, Rules};
use rampmeter_protocol::name::Name;
use rampmeter_serve::limits::present_rules::PresentRules;
use rules_edit::{EditConditions, RulesEdit};
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
    /// Print only the limits that were found (`discover`), as a configuration that says what each was found by.
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
    #[command(flatten)]
    conditions: EditConditions,
    #[command(flatten)]
    nats: NatsArg,
}

/// Shows the limits in force, or removes those that were applied to a resource.
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
    let mut edit = RulesEdit::open(&args.nats, "rampmeter-limits").await?;
    let mut names: Vec<Name> = match &args.resource {
        Some(name) => vec![name.clone()],
        None => edit.schedulers.known_resources().await?,
    };
    names.extend(edit.present.rules.names().filter(|_| args.resource.is_none()).cloned());
    names.sort();
    names.dedup();
    if args.learned {
        return discovered_limits::show(&edit.schedulers, &names).await;
    }
    edit.ask_leaders(names.iter()).await?;
    let RulesEdit { schedulers, present, .. } = edit;
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
    for ShownLimits { remark, rules, .. } in &shown {
        let text = Rules { resources: vec![rules.clone()] }.text();
        output::line(format_args!("\n# {}\n{}", remark, text.trim_end()))?;
    }
    Ok(())
}

struct ShownLimits {
    source: &'static str,
    remark: &'static str,
    rules: ResourceRules,
}

impl ShownLimits {
    /// Returns the limits of `name` in force, or `None` if neither a leader nor the store knows it.
    fn of(present: &PresentRules, name: &Name) -> Option<ShownLimits> {
        let (source, remark, rules) = match (present.in_force.of(name), present.rules.of(name)) {
            (None, None) => return None,
            (None, Some(rules)) => {
                ("rules", "These limits were applied. No scheduler leads the resource now.", rules.clone())
            }
            (Some(in_force), None) => {
                let remark = "These limits count, by the configuration: none were applied.";
                ("configuration", remark, in_force.clone())
            }
            (Some(in_force), Some(rules)) => {
                let rules = ResourceRules { applied: rules.applied.clone(), ..in_force.clone() };
                ("rules", "These limits were applied, and count.", rules)
            }
        };
        Some(ShownLimits { source, remark, rules })
    }
}

fn as_json(present: &PresentRules, shown: &[ShownLimits]) -> Value {
    let resource = |ShownLimits { source, rules, .. }: &ShownLimits| {
        let ResourceRules { name, applied, written, .. } = rules;
        json!({"name": name, "source": source, "applied": applied, "limits": written})
    };
    let resources: Vec<Value> = shown.iter().map(resource).collect();
    json!({"revision": present.revision, "refused": present.refused, "resources": resources})
}

async fn reset(args: ResetArgs) -> anyhow::Result<()> {
    let (mut edit, resource) = (RulesEdit::open(&args.nats, "rampmeter-limits").await?, &args.resource);
    edit.ask_leaders(std::iter::once(resource)).await?;
    let rules = &edit.present.rules;
    if rules.of(resource).is_none() {
        bail!("no limits were applied to `{resource}`: those of the configuration count");
    }
    edit.replace(&rules.without(resource), args.conditions).await
}

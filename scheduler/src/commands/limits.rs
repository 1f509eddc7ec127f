//! `rampmeter limits`

use super::nats_arg::NatsArg;
use super::output;
use super::rules_edit::{Present, Terms, replace};
use crate::config::{ResourceRules, Rules};
use crate::connection::connect;
use crate::store::RuleStore;
use anyhow::{Context, bail};
use rampmeter_protocol::name::Name;
use serde_json::{Value, json};

/// What `limits` takes.
#[derive(Debug, clap::Args)]
pub struct LimitsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print the limits that were applied, as a file that `rampmeter apply` takes.
    Get(GetArgs),
    /// Remove the limits that were applied to a resource: those of the configuration count again.
    Reset(ResetArgs),
}

#[derive(Debug, clap::Args)]
struct GetArgs {
    /// The resource; all that have rules, if none is named.
    resource: Option<Name>,
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

/// Shows the rules in the store, or removes those of a resource.
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
    let client = connect(&args.nats.table(), "rampmeter-limits").await?;
    let present = match RuleStore::existing(&client, &args.nats.prefix).await? {
        Some(store) => Present::read(&store).await?,
        None => Present { revision: 0, rules: Rules::default(), refused: None },
    };
    let rules = chosen(&present.rules, args.resource.as_ref())?;
    if args.json {
        return output::json(&as_json(&present, &rules));
    }
    output::line(format_args!("# revision {}", present.revision))?;
    if let Some(reason) = &present.refused {
        output::line(format_args!("# It is not valid and does not count; this is what does. {reason}"))?;
    }
    if rules.resources.is_empty() {
        output::line("# No limits were applied: those of the configuration count.")?;
    }
    output::print(rules.text())
}

fn chosen(rules: &Rules, resource: Option<&Name>) -> anyhow::Result<Rules> {
    let Some(name) = resource else { return Ok(rules.clone()) };
    let own =
        rules.of(name).with_context(|| format!("no limits were applied to `{name}`: those of the configuration count"));
    Ok(Rules { resources: vec![own?.clone()] })
}

fn as_json(present: &Present, rules: &Rules) -> Value {
    let resource =
        |rules: &ResourceRules| json!({"name": rules.name, "applied": rules.applied, "limits": rules.written});
    let resources: Vec<Value> = rules.resources.iter().map(resource).collect();
    json!({"revision": present.revision, "refused": present.refused, "resources": resources})
}

async fn reset(args: ResetArgs) -> anyhow::Result<()> {
    let client = connect(&args.nats.table(), "rampmeter-limits").await?;
    let Some(store) = RuleStore::existing(&client, &args.nats.prefix).await? else {
        bail!("no limits were ever applied: those of the configuration count");
    };
    let present = Present::read(&store).await?;
    chosen(&present.rules, Some(&args.resource))?;
    let terms = Terms { dry_run: args.dry_run, if_revision: args.if_revision };
    let after = present.rules.without(&args.resource);
    replace((&client, &args.nats.prefix, &store), &present, &after, terms).await
}

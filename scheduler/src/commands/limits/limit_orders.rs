//! `rampmeter thaw`, `rampmeter freeze`, `rampmeter drain` and `rampmeter empty`

use crate::commands::consent::Consent;
use crate::commands::nats_arg::NatsArg;
use crate::commands::output;
use crate::commands::output::human::{amount, duration as duration_text};
use crate::commands::schedulers::Schedulers;
use rampmeter_account::duration;
use rampmeter_protocol::limit_order::{FreezeOrder, LimitOrder, LimitOrderDone};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::LimitStatus;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::Span;
use serde::Serialize;

/// The name of these commands as NATS clients.
const CLIENT: &str = "rampmeter-limits";

/// What `thaw` takes.
#[derive(Debug, clap::Args)]
pub struct ThawArgs {
    /// The resource.
    resource: Name,
    /// The limit; all limits of the resource, if none is named.
    limit: Option<Name>,
    /// Print the scheduler's answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

/// What `freeze` takes.
#[derive(Debug, clap::Args)]
pub struct FreezeArgs {
    /// The resource.
    resource: Name,
    /// The limit; all limits of the resource that have no key, if none is named.
    #[arg(long)]
    limit: Option<Name>,
    /// How long the pause lasts: at most a day. A longer pause of the limit stays as it is.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    span: Span,
    /// Print the scheduler's answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    nats: NatsArg,
}

/// What `drain` takes.
#[derive(Debug, clap::Args)]
pub struct DrainArgs {
    /// The resource.
    resource: Name,
    /// The account.
    account: Name,
    /// How long the account rests: at most a day.
    #[arg(long = "for", value_name = "TIME", default_value = "24h", value_parser = duration::parse)]
    span: Span,
    /// Let the account make calls again.
    #[arg(long, conflicts_with = "span")]
    end: bool,
    /// Print the scheduler's answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    nats: NatsArg,
}

/// What `empty` takes.
#[derive(Debug, clap::Args)]
pub struct EmptyArgs {
    /// The resource.
    resource: Name,
    /// The limit. A quota stays empty until its reset: for good, if it has none.
    #[arg(required_unless_present = "all")]
    limit: Option<Name>,
    /// All limits of the resource.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print the scheduler's answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    nats: NatsArg,
}

/// Ends the pauses of limits, and prints which.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn thaw(args: ThawArgs) -> anyhow::Result<()> {
    let ThawArgs { resource, limit, json, nats } = args;
    let schedulers = Schedulers::connect(&nats, CLIENT).await?;
    give(&schedulers, json, &resource, Subjects::thaw, &LimitOrder { limit, account: None }, "thawed").await
}

/// Pauses limits, and prints which.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn freeze(args: FreezeArgs) -> anyhow::Result<()> {
    let FreezeArgs { resource, limit, span, json, consent, nats } = args;
    let schedulers = Schedulers::connect(&nats, CLIENT).await?;
    let length = duration_text(span.millis());
    let deed = async {
        let limits = levels(&schedulers, &resource, limit.as_ref(), |limit| limit.key.is_none()).await?;
        Ok(format!("pause {limits} of `{resource}` for {length}"))
    };
    if !consent.to(deed).await? {
        return Ok(());
    }
    let order = FreezeOrder { limit, account: None, for_ms: span.into() };
    give(&schedulers, json, &resource, Subjects::freeze, &order, &format!("frozen for {length}")).await
}

/// Lets an account rest, or ends its rest, and prints its limits.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn drain(args: DrainArgs) -> anyhow::Result<()> {
    let DrainArgs { resource, account, span, end, json, consent, nats } = args;
    let schedulers = Schedulers::connect(&nats, CLIENT).await?;
    let length = duration_text(span.millis());
    if end {
        let order = LimitOrder { limit: None, account: Some(account) };
        return give(&schedulers, json, &resource, Subjects::thaw, &order, "thawed").await;
    }
    let deed = async { Ok(format!("let account `{account}` of `{resource}` make no calls for {length}")) };
    if !consent.to(deed).await? {
        return Ok(());
    }
    let order = FreezeOrder { limit: None, account: Some(account), for_ms: span.into() };
    give(&schedulers, json, &resource, Subjects::freeze, &order, &format!("frozen for {length}")).await
}

/// Sets the levels of limits to zero, and prints of which.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn empty(args: EmptyArgs) -> anyhow::Result<()> {
    let EmptyArgs { resource, limit, json, consent, nats, all: _ } = args;
    let schedulers = Schedulers::connect(&nats, CLIENT).await?;
    let deed = async {
        let limits = levels(&schedulers, &resource, limit.as_ref(), |_| true).await?;
        Ok(format!("set to zero {limits} of `{resource}`"))
    };
    if !consent.to(deed).await? {
        return Ok(());
    }
    give(&schedulers, json, &resource, Subjects::empty, &LimitOrder { limit, account: None }, "emptied").await
}

async fn levels(
    schedulers: &Schedulers,
    resource: &Name,
    named: Option<&Name>,
    of_all: impl Fn(&LimitStatus) -> bool,
) -> anyhow::Result<String> {
    let status = schedulers.status(resource).await?;
    let meant = |limit: &&LimitStatus| named.map_or_else(|| of_all(limit), |name| limit.name == *name);
    let level = |limit: &LimitStatus| match limit.key {
        Some(_) => format!("{} (all keys)", limit.name),
        None => format!("{} ({} of {} left)", limit.name, amount(limit.level), amount(limit.capacity)),
    };
    let levels: Vec<String> = status.limits.iter().filter(meant).map(level).collect();
    anyhow::ensure!(!levels.is_empty(), "`{resource}` has no such limit");
    Ok(levels.join(", "))
}

/// Repeats an order until its leader, which does a bounded part at once, has done all, and prints the limits.
async fn give(
    schedulers: &Schedulers,
    json: bool,
    resource: &Name,
    subject: fn(&Subjects, &Name) -> String,
    order: &impl Serialize,
    done: &str,
) -> anyhow::Result<()> {
    let mut answer: LimitOrderDone = schedulers.ask(subject, order, resource).await?;
    while answer.more {
        answer.more = schedulers.ask::<LimitOrderDone>(subject, order, resource).await?.more;
    }
    output::show(json, &answer, |answer| format!("{}: {}\n", answer.resource, summary(&answer.limits, done)))
}

fn summary(limits: &[Name], done: &str) -> String {
    match limits {
        [] => "nothing is paused".to_owned(),
        limits => format!("{} {done}", limits.iter().map(|limit| &**limit).collect::<Vec<_>>().join(", ")),
    }
}

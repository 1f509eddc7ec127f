//! `rampmeter thaw`, `rampmeter freeze` and `rampmeter empty`

use crate::commands::nats_arg::NatsArg;
use crate::commands::output;
use crate::commands::output::human::duration as duration_text;
use crate::commands::schedulers::Schedulers;
use rampmeter_account::duration;
use rampmeter_protocol::limit_order::{FreezeOrder, LimitOrder, LimitOrderDone};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::Span;
use serde::Serialize;

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
    nats: NatsArg,
}

/// Ends the pauses of limits, and prints which.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn thaw(args: ThawArgs) -> anyhow::Result<()> {
    let ThawArgs { resource, limit, json, nats } = args;
    give((&nats, json), &resource, Subjects::thaw, &LimitOrder { limit }, "thawed").await
}

/// Pauses limits, and prints which.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn freeze(args: FreezeArgs) -> anyhow::Result<()> {
    let FreezeArgs { resource, limit, span, json, nats } = args;
    let done = format!("frozen for {}", duration_text(span.millis()));
    give((&nats, json), &resource, Subjects::freeze, &FreezeOrder { limit, for_ms: span.into() }, &done).await
}

/// Takes the stock of limits, and prints which.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn empty(args: EmptyArgs) -> anyhow::Result<()> {
    let EmptyArgs { resource, limit, json, nats, all: _ } = args;
    give((&nats, json), &resource, Subjects::empty, &LimitOrder { limit }, "emptied").await
}

/// Gives an order to the leader of a resource, and prints to which limits it applied. The order is
/// repeated until nothing is left to do: a leader does a bounded part of it at once.
async fn give(
    (nats, json): (&NatsArg, bool),
    resource: &Name,
    subject: fn(&Subjects, &Name) -> String,
    order: &impl Serialize,
    done: &str,
) -> anyhow::Result<()> {
    let schedulers = Schedulers::connect(nats, "rampmeter-limits").await?;
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

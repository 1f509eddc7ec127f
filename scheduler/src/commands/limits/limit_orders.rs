//! `rampmeter thaw`, `rampmeter freeze` and `rampmeter empty`

use crate::commands::nats_arg::NatsArg;
use crate::commands::output;
use crate::commands::output::human::duration as duration_text;
use crate::commands::status::ask;
use crate::provider::duration;
use crate::serve::connection::connect;
use async_nats::Client;
use rampmeter_protocol::limit_order::{FreezeOrder, LimitOrder, LimitOrderDone};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::Span;

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

/// An operator's order, and how its answer is printed.
struct LimitCommand {
    resource: Name,
    limit: Option<Name>,
    json: bool,
    nats: NatsArg,
    /// The subject of such orders.
    subject: fn(&Subjects, &Name) -> String,
    done: &'static str,
}

/// Ends the pauses of limits, and prints which.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn thaw(args: ThawArgs) -> anyhow::Result<()> {
    let ThawArgs { resource, limit, json, nats } = args;
    LimitCommand { resource, limit, json, nats, subject: Subjects::thaw, done: "thawed" }.give().await
}

/// Pauses limits, and prints which.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn freeze(args: FreezeArgs) -> anyhow::Result<()> {
    let FreezeArgs { resource, limit, span, json, nats } = args;
    let client = connect(&nats.table(), "rampmeter-limits").await?;
    let answer = order_freeze(&client, &Subjects::new(&nats.prefix)?, &resource, limit, span).await?;
    match json {
        true => output::json(&answer),
        false => {
            let done = format!("frozen for {}", duration_text(span.millis()));
            output::line(format_args!("{}: {}", answer.resource, summary(&answer.limits, &done)))
        }
    }
}

/// Takes the stock of limits, and prints which.
///
/// # Errors
/// If NATS can't be reached, no scheduler leads the resource, or the leader refuses.
pub async fn empty(args: EmptyArgs) -> anyhow::Result<()> {
    let EmptyArgs { resource, limit, json, nats, all: _ } = args;
    LimitCommand { resource, limit, json, nats, subject: Subjects::empty, done: "emptied" }.give().await
}

impl LimitCommand {
    async fn give(self) -> anyhow::Result<()> {
        let client = connect(&self.nats.table(), "rampmeter-limits").await?;
        let subject = (self.subject)(&Subjects::new(&self.nats.prefix)?, &self.resource);
        let answer = order(&client, subject, &self.resource, self.limit).await?;
        match self.json {
            true => output::json(&answer)?,
            false => output::line(format_args!("{}: {}", answer.resource, summary(&answer.limits, self.done)))?,
        }
        Ok(())
    }
}

/// Repeats an order about one limit, or about all, until nothing is left to do.
///
/// # Errors
/// If no scheduler leads the resource, or the leader refuses.
pub(in crate::commands) async fn order(
    client: &Client,
    subject: String,
    resource: &Name,
    limit: Option<Name>,
) -> anyhow::Result<LimitOrderDone> {
    let order = serde_json::to_vec(&LimitOrder { limit })?;
    let mut answer: LimitOrderDone = ask(client, subject.clone(), order.clone(), resource).await?;
    while answer.more {
        let next: LimitOrderDone = ask(client, subject.clone(), order.clone(), resource).await?;
        answer.more = next.more;
    }
    Ok(answer)
}

/// Pauses calls that take from one limit, or from any limit.
///
/// # Errors
/// If no scheduler leads the resource, or the leader refuses.
pub(in crate::commands) async fn order_freeze(
    client: &Client,
    subjects: &Subjects,
    resource: &Name,
    limit: Option<Name>,
    span: Span,
) -> anyhow::Result<LimitOrderDone> {
    let order = serde_json::to_vec(&FreezeOrder { limit, for_ms: span.into() })?;
    ask(client, subjects.freeze(resource), order, resource).await
}

fn summary(limits: &[Name], done: &str) -> String {
    match limits {
        [] => "nothing is paused".to_owned(),
        limits => format!("{} {done}", limits.iter().map(|limit| &**limit).collect::<Vec<_>>().join(", ")),
    }
}

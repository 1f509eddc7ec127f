//! `rampmeter status`

use super::nats_arg::NatsArg;
use super::table::{right_aligned, seconds, table};
use crate::connection::connect;
use anyhow::{Context, bail};
use async_nats::{Client, Message, RequestErrorKind};
use comfy_table::Table;
use futures::StreamExt;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::resources::Resources;
use rampmeter_protocol::status::{LimitStatus, ProviderState, ProviderStatus, RulesStatus, Status};
use rampmeter_protocol::subject::Subjects;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How long to collect the resources of all schedulers.
const COLLECT: Duration = Duration::from_millis(300);
/// The longest wait for a scheduler's answer.
const ANSWER: Duration = Duration::from_secs(2);

/// What `status` takes.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The resource; all resources, if none is named.
    resource: Option<Name>,
    /// Print the protocol's status messages as a JSON array.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

/// Prints the status of resources.
///
/// # Errors
/// If NATS can't be reached, or no scheduler answers.
#[expect(clippy::print_stdout, reason = "what the command is for")]
pub async fn run(args: StatusArgs) -> anyhow::Result<()> {
    let client = connect(&args.nats.table(), "rampmeter-status").await?;
    let subjects = Subjects::new(&args.nats.prefix)?;
    let names = match args.resource {
        Some(name) => vec![name],
        None => resource_names(&client, &subjects).await?,
    };
    let mut all = Vec::new();
    for name in names {
        all.push(ask::<Status>(&client, subjects.status(&name), Vec::new(), &name).await?);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        all.iter().for_each(|status| println!("{}", render(status)));
    }
    Ok(())
}

/// The names of all resources. Every scheduler answers with its own.
async fn resource_names(client: &Client, subjects: &Subjects) -> anyhow::Result<Vec<Name>> {
    let names = names_of_resources(client, subjects).await?;
    if names.is_empty() {
        bail!("no scheduler answers on `{}`; is `rampmeter serve` running?", subjects.resources());
    }
    Ok(names)
}

/// The names of all resources; none if no scheduler answers.
///
/// # Errors
/// If the connection is closed.
pub(super) async fn names_of_resources(client: &Client, subjects: &Subjects) -> anyhow::Result<Vec<Name>> {
    let inbox = client.new_inbox();
    let answers = client.subscribe(inbox.clone()).await?;
    client.publish_with_reply(subjects.resources(), inbox, "".into()).await?;
    let mut names = Vec::new();
    let mut in_time = Box::pin(answers.take_until(tokio::time::sleep(COLLECT)));
    while let Some(answer) = in_time.next().await {
        if let Ok(resources) = serde_json::from_slice::<Resources>(&answer.payload) {
            names.extend(resources.resources.into_iter().map(|resource| resource.name));
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Asks the leader of the resource `name` for its status.
///
/// # Errors
/// If no scheduler leads it, or the leader does not answer.
pub(super) async fn ask_leader(client: &Client, subject: String, name: &Name) -> anyhow::Result<Status> {
    ask(client, subject, Vec::new(), name).await
}

/// Asks the leader of the resource `name`.
///
/// # Errors
/// If no scheduler leads it, or the leader does not answer or refuses.
pub(super) async fn ask<A: DeserializeOwned>(
    client: &Client,
    subject: String,
    question: Vec<u8>,
    name: &Name,
) -> anyhow::Result<A> {
    let answer = client.request(subject, question.into());
    match tokio::time::timeout(ANSWER, answer).await {
        Ok(Ok(message)) => read(&message),
        Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => {
            bail!("no running scheduler owns resource `{name}`")
        }
        Ok(Err(error)) => Err(error).with_context(|| format!("resource `{name}`")),
        Err(_) => bail!("the scheduler of resource `{name}` does not answer"),
    }
}

fn read<A: DeserializeOwned>(message: &Message) -> anyhow::Result<A> {
    let error = message.headers.as_ref().and_then(|headers| headers.get("Nats-Service-Error"));
    match error {
        Some(error) => bail!("{error}"),
        None => serde_json::from_slice(&message.payload).context("the answer is not of the protocol"),
    }
}

/// The status of one resource, as tables.
fn render(status: &Status) -> String {
    let counters = &status.counters;
    let delayed = status.limited_by.as_ref().map_or("nothing delays the next request".to_owned(), |limit| {
        format!("the next request is delayed by `{limit}`")
    });
    format!(
        "{} · epoch {} · led by {}\n{}{}{} granted, {} refused, {} settled, {} returned, {} × 429 upstream; {delayed}\n{}{}\n{}\n",
        status.resource,
        status.epoch,
        status.leader,
        status.rules.as_ref().map(rules).unwrap_or_default(),
        status.provider.as_ref().map(provider).unwrap_or_default(),
        counters.granted,
        counters.refused,
        counters.settled,
        counters.returned,
        counters.upstream_429,
        missing_labels(status),
        limits(status),
        classes(status),
    )
}

/// The rules in force, and those that are refused.
fn rules(rules: &RulesStatus) -> String {
    let counting = match (rules.counts, &rules.by, &rules.at) {
        (false, ..) => format!("limits of the configuration; rules of revision {} have none for it\n", rules.revision),
        (true, Some(by), Some(at)) => format!("rules of revision {}, applied by {by} at {at}\n", rules.revision),
        (true, ..) => format!("rules of revision {}\n", rules.revision),
    };
    let refused = rules.refused.as_ref();
    let refused =
        refused.map(|refused| format!("rules of revision {} are refused: {}\n", refused.revision, refused.reason));
    counting + &refused.unwrap_or_default()
}

/// The provider of the limits, with a line for each note.
fn provider(provider: &ProviderStatus) -> String {
    let received = provider
        .contract_age_ms
        .map_or("no limits received yet".to_owned(), |age_ms| format!("limits received {} ago", seconds(age_ms)));
    let state = match (provider.state, &provider.reason) {
        (ProviderState::Unknown, _) => "no answer yet".to_owned(),
        (ProviderState::Ok, _) => "ok".to_owned(),
        (ProviderState::Failing, reason) => {
            format!("failing, so that the known limits count: {}", reason.as_deref().unwrap_or("unknown reason"))
        }
    };
    let notes = provider.notes.iter().map(|note| format!("note: {note}\n"));
    format!("provider {}: {state}; {received}\n{}", provider.kind, notes.collect::<String>())
}

fn limits(status: &Status) -> Table {
    let mut table = table(&["limit", "unit", "level", "capacity", "margin", "period", "next free", "learned"]);
    for limit in &status.limits {
        table.add_row([
            limit.name.to_string(),
            limit.unit.to_string(),
            format!("{:.2}", limit.level),
            limit.capacity.to_string(),
            limit.margin.to_string(),
            seconds(limit.period_ms),
            seconds(limit.next_free_ms),
            learned(limit),
        ]);
    }
    right_aligned(table, 2..7)
}

/// A remark on each keyed limit that holds no request, as requests lack its labels.
fn missing_labels(status: &Status) -> String {
    let lacking = status.limits.iter().filter(|limit| !limit.missing_labels.is_empty());
    let note = |limit: &LimitStatus| {
        let labels = limit.missing_labels.join("`, `");
        format!("note: no request has carried the label `{labels}`, so that `{}` holds none\n", limit.name)
    };
    lacking.map(note).collect()
}

/// What was learned or measured about a limit.
fn learned(limit: &LimitStatus) -> String {
    let frozen = (limit.frozen_ms > 0.0).then(|| format!("frozen for {}", seconds(limit.frozen_ms)));
    let differs = limit
        .learned
        .map(|learned| format!("{:.1} % of the rate, {:.1} held back", 100.0 * learned.rate, learned.held_back));
    let shadow = limit.shadow.map(|shadow| {
        format!(
            "shadow: of {} calls, {} would wait, {} be refused",
            shadow.calls, shadow.would_wait, shadow.would_refuse
        )
    });
    let parts: Vec<String> = frozen.into_iter().chain(differs).chain(shadow).collect();
    if parts.is_empty() { "–".to_owned() } else { parts.join("; ") }
}

fn classes(status: &Status) -> Table {
    let mut table = table(&["class", "queued", "oldest"]);
    for class in &status.classes {
        table.add_row([class.name.to_string(), class.queued.to_string(), seconds(class.oldest_ms)]);
    }
    right_aligned(table, 1..3)
}

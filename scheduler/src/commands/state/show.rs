//! Shows the stored state.

use crate::commands::nats_arg::{NatsArg, by_file};
use crate::commands::output;
use crate::commands::output::human::{amount, count, duration, escaped, wrapped};
use crate::commands::output::table::{table, text_width};
use anyhow::Context;
use rampmeter_protocol::name::Name;
use rampmeter_serve::connection::connect;
use rampmeter_serve::denials::Denials;
use rampmeter_store::{ClockReading, FullestKey, StateRecord, Store, StoredEntry, StoredState};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The resource; all in the store, if none is named.
    resource: Option<Name>,
    /// Print the stored records as a JSON array.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

pub(super) async fn run(args: ShowArgs) -> anyhow::Result<()> {
    let (table, file) = args.nats.table()?;
    let client = by_file(connect(&Denials::default(), &table, "rampmeter-state").await, file)?;
    let store = Store::existing(&client, &table.prefix).await?.with_context(|| {
        format!(
            "there is no KV bucket `{}`: no scheduler has run on this server, or the bucket was deleted; \
             `rampmeter state init` makes a new one",
            table.prefix
        )
    })?;
    let names = match args.resource {
        Some(name) => vec![name],
        None => store.resources().await?,
    };
    let mut all = Vec::new();
    for name in names {
        let found = store.read(&name).await?;
        all.push((name, found));
    }
    if args.json {
        let records: Vec<Value> = all.iter().map(|(name, found)| as_json(name, found)).collect();
        return output::json(&records);
    }
    all.iter().try_for_each(|(name, found)| output::line(as_text(name, found)))
}

fn as_json(name: &Name, StoredEntry { revision, state }: &StoredEntry) -> Value {
    match state {
        StoredState::Record(record) => json!({"resource": name, "revision": revision, "record": record}),
        StoredState::Nothing | StoredState::Damaged(..) | StoredState::Newer(_) => {
            json!({"resource": name, "revision": revision, "trouble": trouble(state)})
        }
    }
}

fn as_text(name: &Name, StoredEntry { revision, state }: &StoredEntry) -> String {
    match state {
        StoredState::Record(record) => {
            format!("{}\n{}\n{}", headline(name, *revision, record), levels(record), keys(record))
        }
        StoredState::Nothing | StoredState::Damaged(..) | StoredState::Newer(_) => {
            format!("{name} · {}\n", trouble(state))
        }
    }
}

fn headline(name: &Name, revision: u64, record: &StateRecord) -> String {
    let age = duration(ClockReading::now().unix_ms.saturating_sub(record.saved.unix_ms) as f64);
    // A hand-over is the last record of its leader, and has no number of its own.
    let (by, what) = match record.released {
        true => ("handed over by", "the state".to_owned()),
        false => ("led by", format!("checkpoint {}", count(record.checkpoint))),
    };
    format!(
        "{name} · epoch {} · {by} {}\n{what}, written {age} ago at revision {} of the store",
        record.epoch,
        record.leader,
        count(revision)
    )
}

fn levels(record: &StateRecord) -> String {
    let units = |micros: f64| amount(micros / 1e6);
    let row = |limit: &Name, micros: i64, budget: String| [limit.to_string(), units(micros as f64), budget];
    let levels = record.levels.iter().map(|level| row(&level.limit, level.micros, units(level.budget as f64)));
    let keys = record.keys.fullest().into_iter().map(|key| row(key.limit, key.micros, String::new()));
    table(&["limit", "level for a successor", "grant budget"], 1..3, levels.chain(keys))
}

/// Returns a line on each limit with keys, like that of `rampmeter status`.
fn keys(record: &StateRecord) -> String {
    let line = |FullestKey { limit, key, listed, .. }: FullestKey<'_>| {
        let keys = if listed == 1 { "1 key is".to_owned() } else { format!("{} keys are", count(listed as u64)) };
        wrapped(&format!("`{limit}`: {keys} listed; this is the fullest, `{}`", escaped(key)), text_width()) + "\n"
    };
    record.keys.fullest().into_iter().map(line).collect()
}

fn trouble(state: &StoredState) -> String {
    match state {
        StoredState::Nothing => "the store has no record of it".to_owned(),
        StoredState::Newer(version) => format!("in format {version}, which a newer build wrote"),
        StoredState::Damaged(damage, None) => format!("damaged: {damage}; a scheduler starts with empty buckets"),
        StoredState::Damaged(damage, Some(_)) => {
            format!("damaged: {damage}; a scheduler goes on from the debts of the record before")
        }
        StoredState::Record(_) => "none".to_owned(),
    }
}

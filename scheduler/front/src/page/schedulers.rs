//! The live schedulers with the resources that they lead, and the stored record of each resource.

use super::page_error::PageError;
use crate::front_client::FrontClient;
use futures::future::join_all;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_serve::peers::{PeerDuties, Peers};
use rampmeter_store::{ClockReading, StateRecord, Store, StoredEntry, StoredState};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::sync::Mutex;

/// How long an answer is repeated to further browsers. Reading takes a message for each resource.
const FRESH_LIST: Span = Span::from_secs(2);

/// The last answer. Locked while another is made, so that many browsers cause only one.
#[derive(Debug, Default)]
pub(super) struct SchedulerList(Mutex<Option<(Time, Value)>>);

impl SchedulerList {
    /// Returns the present or recent schedulers and records.
    pub(super) async fn get(
        &self,
        front_client: &FrontClient,
        peers: &Peers,
        store: &async_nats::Client,
    ) -> Result<Value, PageError> {
        let mut last = self.0.lock().await;
        let now = front_client.clock.now();
        if let Some((_, known)) = last.as_ref().filter(|(made, _)| now.since(*made) < FRESH_LIST) {
            return Ok(known.clone());
        }
        let records = records(front_client, store).await?;
        let page = json!({"me": peers.me(), "schedulers": schedulers(&peers.duties(now)), "records": records});
        *last = Some((now, page.clone()));
        Ok(page)
    }
}

fn schedulers(peers: &BTreeMap<String, PeerDuties>) -> Value {
    let scheduler = |(name, duties): (&String, &PeerDuties)| json!({"name": name, "leads": duties.leads, "stands_by": duties.stands_by, "heard_ms": duties.seen_ago.millis().round()});
    peers.iter().map(scheduler).collect()
}

/// Returns the record of each resource, in the order of names.
async fn records(front_client: &FrontClient, client: &async_nats::Client) -> Result<Value, PageError> {
    let prefix = front_client.subjects.prefix();
    let store = Store::existing(client, prefix).await;
    let store = store.map_err(|error| PageError::unavailable(format!("the store can't be read: {error}")))?;
    let Some(store) = store else { return Ok(json!([])) };
    let reads = front_client.resources().map(async |name| match store.read(name).await {
        Ok(found) => record(name, &found),
        Err(error) => json!({"resource": name, "trouble": error.to_string()}),
    });
    Ok(Value::Array(join_all(reads).await))
}

fn record(name: &Name, StoredEntry { revision, state }: &StoredEntry) -> Value {
    let trouble = |text: &str| json!({"resource": name, "revision": revision, "trouble": text});
    match state {
        StoredState::Record(record) => written(name, *revision, record),
        StoredState::Nothing => trouble("the store has no record of it"),
        StoredState::Newer(_) => trouble("a newer build wrote it"),
        StoredState::Damaged(..) => trouble("it is damaged: `rampmeter state show` tells more"),
    }
}

fn written(name: &Name, revision: u64, record: &StateRecord) -> Value {
    // A hand-over is the last record of its leader, and has no number of its own.
    let checkpoint = (!record.released).then_some(record.checkpoint);
    json!({
        "resource": name,
        "revision": revision,
        "epoch": record.epoch,
        "leader": record.leader,
        "checkpoint": checkpoint,
        "age_ms": ClockReading::now().unix_ms.saturating_sub(record.saved.unix_ms),
        "server": record.server,
        "rules": record.rules_revision,
    })
}

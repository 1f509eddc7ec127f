//! Delayed, running and dead jobs of queues, lane by lane.

use super::page_error::PageError;
use axum::http::StatusCode;
use rampmeter_config::NatsTable;
use rampmeter_jobs::{DeadLetter, GroupStatus, Queue};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_serve::connection::login;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long counts are repeated, since counting takes some messages for each lane with a running job.
const FRESH_COUNTS: Span = Span::from_secs(5);
/// How long a queue may take to answer.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(3);
/// Bound on the shown lanes, those with the most jobs first.
const SHOWN_LANES: usize = 100;
/// Bound on the shown dead letters, the oldest first.
const SHOWN_LETTERS: usize = 20;
/// Characters of a payload that are shown.
const SHOWN_CHARACTERS: usize = 60;

/// The queues on the page. Connections to them are made when a browser first looks.
#[derive(Debug)]
pub(crate) struct JobQueues {
    names: Vec<Name>,
    nats: NatsTable,
    /// Locked while a connection is made.
    open: Mutex<BTreeMap<Name, Queue>>,
    /// Locked while counts are made, so that many browsers cause only one count.
    last: Mutex<Option<(Time, Value)>>,
}

impl JobQueues {
    pub(crate) fn new(names: Vec<Name>, nats: NatsTable) -> Self {
        JobQueues { names, nats, open: Mutex::default(), last: Mutex::default() }
    }

    pub(super) fn are_shown(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns the present or recent state of all queues.
    pub(super) async fn list(&self, now: Time) -> Value {
        let mut last = self.last.lock().await;
        if let Some((_, known)) = last.as_ref().filter(|(made, _)| now.since(*made) < FRESH_COUNTS) {
            return known.clone();
        }
        let mut queues = Vec::new();
        for name in &self.names {
            queues.push(self.count(name).await.unwrap_or_else(|why| json!({"name": name, "trouble": why})));
        }
        let groups_json = json!({"queues": queues});
        *last = Some((now, groups_json.clone()));
        groups_json
    }

    /// Deletes a job or a dead letter. Returns whether it existed.
    pub(super) async fn delete(&self, name: &str, sequence: u64) -> Result<bool, PageError> {
        let known = self.names.iter().find(|known| ***known == *name);
        let missing = || PageError(StatusCode::NOT_FOUND, "this page has no such queue".to_owned());
        let queue = self.queue(known.ok_or_else(missing)?).await.map_err(PageError::unavailable)?;
        let deleted = tokio::time::timeout(QUEUE_TIMEOUT, queue.delete(sequence)).await;
        let deleted = deleted.map_err(|_elapsed| PageError::unavailable("JetStream does not answer"))?;
        *self.last.lock().await = None;
        deleted.map_err(|error| PageError::unavailable(error.to_string()))
    }

    async fn count(&self, name: &Name) -> Result<Value, String> {
        let counting = async {
            let queue = self.queue(name).await?;
            let lanes = queue.status().await.map_err(|error| error.to_string())?;
            let dead = queue.dead_letters(SHOWN_LETTERS).await.map_err(|error| error.to_string())?;
            Ok(groups_json(name, lanes, &dead))
        };
        let counted = tokio::time::timeout(QUEUE_TIMEOUT, counting).await;
        counted.unwrap_or_else(|_elapsed| Err("JetStream does not answer".to_owned()))
    }

    async fn queue(&self, name: &Name) -> Result<Queue, String> {
        let mut open = self.open.lock().await;
        if let Some(known) = open.get(name) {
            return Ok(known.clone());
        }
        let servers = self.nats.servers().map_err(|error| format!("{error:#}"))?;
        let options = login(&self.nats, &servers).map_err(|error| format!("{error:#}"))?.name("rampmeter-page-jobs");
        let builder = Queue::builder().options(options).prefix(&*self.nats.prefix);
        let opened = builder.open(servers.to_string(), name).await.map_err(|error| error.to_string())?;
        open.insert(name.clone(), opened.clone());
        Ok(opened)
    }
}

fn groups_json(name: &Name, mut lanes: Vec<GroupStatus>, dead: &[DeadLetter]) -> Value {
    lanes.sort_by_key(|lane| Reverse(lane.delayed + lane.running + lane.dead));
    let sum = |of: fn(&GroupStatus) -> usize| lanes.iter().map(of).sum::<usize>();
    json!({
        "name": name,
        "delayed": sum(|lane| lane.delayed),
        "running": sum(|lane| lane.running),
        "dead": sum(|lane| lane.dead),
        "more_lanes": lanes.len().saturating_sub(SHOWN_LANES),
        "lanes": &lanes[..lanes.len().min(SHOWN_LANES)],
        "letters": dead.iter().map(letter).collect::<Vec<_>>(),
    })
}

fn letter(letter: &DeadLetter) -> Value {
    let payload: String = String::from_utf8_lossy(&letter.payload).chars().take(SHOWN_CHARACTERS).collect();
    json!({
        "sequence": letter.sequence,
        "group": letter.group,
        "class": letter.class,
        "attempts": letter.attempts,
        "reason": letter.reason,
        "payload": payload,
    })
}

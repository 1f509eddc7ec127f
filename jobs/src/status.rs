//! The state of a queue and its jobs, read from its streams.

use crate::QueueError;
use crate::lane::{Lane, LaneMessage};
use crate::store::{Store, or_none};
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::message::StreamMessage;
use bytes::Bytes;
use rampmeter_protocol::time::Span;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const REASON: &str = "Rampmeter-Reason";
const ATTEMPTS: &str = "Rampmeter-Attempts";
const ID: &str = "Rampmeter-Id";
/// Bound on the characters of a reason, so that a dead letter fits into a message.
const MAX_REASON: usize = 1000;

/// The jobs of one class and group, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GroupStatus {
    /// The group.
    pub group: String,
    /// The class; absent for jobs without one.
    pub class: Option<String>,
    /// The number of waiting jobs: for their permit, the previous job, or another attempt.
    pub delayed: usize,
    /// The number of running jobs. A job whose worker has died counts as running until its lease ends.
    pub running: usize,
    /// The number of jobs that were given up.
    pub dead: usize,
}

/// A job that was given up.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its sequence in the stream, to [delete](crate::Queue::delete) it.
    pub sequence: u64,
    /// Its group.
    pub group: String,
    /// Its class, if it has one.
    pub class: Option<String>,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// The producer's payload.
    #[serde(serialize_with = "as_text")]
    pub payload: Bytes,
    /// Why it was given up.
    pub reason: String,
    /// The number of attempts that had begun.
    pub attempts: u32,
}

/// The position of a job in its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Position {
    /// The group.
    pub group: String,
    /// The class; absent for jobs without one.
    pub class: Option<String>,
    /// The number of jobs before it in its group and class, including running ones.
    pub ahead: u64,
    /// Whether it is running.
    pub running: bool,
    /// When it is likely to begin, at the pace of its group. Unknown until a job of the group has ended.
    #[serde(rename = "starts_in_ms", serialize_with = "in_millis")]
    pub starts_in: Option<Duration>,
}

fn in_millis<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| Span::from(time).millis()).serialize(serializer)
}

fn as_text<S: Serializer>(payload: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(payload))
}

/// Adds headers that state why `job` was given up.
pub(crate) fn explain(headers: &mut HeaderMap, job: &StreamMessage, attempts: u32, why: &str) {
    headers.insert(REASON, reason(why));
    headers.insert(ATTEMPTS, attempts.to_string());
    if let Some(id) = job.headers.get(NATS_MESSAGE_ID) {
        headers.insert(ID, id.as_str());
    }
}

/// Returns the beginning of `why` as one line of text for a header.
fn reason(why: &str) -> String {
    let plain = |char: char| if char.is_control() { ' ' } else { char };
    why.chars().take(MAX_REASON).map(plain).collect()
}

pub(crate) async fn of(store: &Store) -> Result<Vec<GroupStatus>, QueueError> {
    let mut groups: BTreeMap<Lane, GroupStatus> = BTreeMap::new();
    for (lane, count) in store.counts(LaneMessage::Dead).await? {
        group(&mut groups, lane).dead = count;
    }
    // Jobs run only in lanes with a note of attempts.
    let noted: BTreeSet<Lane> = store.counts(LaneMessage::Attempt).await?.into_iter().map(|(lane, _)| lane).collect();
    for (lane, count) in store.counts(LaneMessage::Job).await? {
        let running = if noted.contains(&lane) { running(store, &lane).await.len() } else { 0 };
        let group = group(&mut groups, lane);
        (group.delayed, group.running) = (count.saturating_sub(running), running);
    }
    Ok(groups.into_values().collect())
}

fn group(groups: &mut BTreeMap<Lane, GroupStatus>, lane: Lane) -> &mut GroupStatus {
    let Lane { class, group } = lane.clone();
    let class = class.map(|class| class.to_string());
    groups.entry(lane).or_insert_with(|| GroupStatus { group, class, ..GroupStatus::default() })
}

/// Returns the lane's running jobs, which still exist and had an attempt since the lease was delivered.
async fn running(store: &Store, lane: &Lane) -> Vec<u64> {
    let Some(noted) = store.attempts(lane).await else { return Vec::new() };
    let lane_lease = store.lane_lease(lane).await;
    if lane_lease.is_none_or(|lane_lease| lane_lease.sequence > noted.sequence) {
        return Vec::new();
    }
    let mut running = Vec::new();
    for job in noted.value.running() {
        running.extend(store.job(job).await.map(|message| message.sequence));
    }
    running
}

pub(crate) async fn position(store: &Store, sequence: u64) -> Option<Position> {
    let job = store.job(sequence).await?;
    let lane = store.layout.subjects.lane(LaneMessage::Job, &job.subject)?;
    let ahead = ahead(store, &lane, sequence).await;
    let running = running(store, &lane).await.contains(&sequence);
    let pace = pace_ms(store, &lane).await.map(Duration::from_millis);
    let starts_in = pace.map(|pace| pace.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX)));
    let Lane { class, group } = lane;
    let class = class.map(|class| class.to_string());
    Some(Position { group, class, ahead, running, starts_in: if running { Some(Duration::ZERO) } else { starts_in } })
}

/// Returns the lane's pace, as last noted by a holder.
async fn pace_ms(store: &Store, lane: &Lane) -> Option<u64> {
    let asleep = store.lane_lease(lane).await.and_then(|lane_lease| lane_lease.value.pace_ms());
    match asleep {
        Some(pace_ms) => Some(pace_ms),
        None => store.attempts(lane).await?.value.pace_ms(),
    }
}

async fn ahead(store: &Store, lane: &Lane, sequence: u64) -> u64 {
    let (mut ahead, mut from) = (0, 1);
    while let Some(job) = store.next_job(lane, from).await.filter(|job| job.sequence < sequence) {
        (ahead, from) = (ahead + 1, job.sequence + 1);
    }
    ahead
}

pub(crate) async fn dead_letters(store: &Store, most: usize) -> Result<Vec<DeadLetter>, QueueError> {
    let (mut letters, mut next) = (Vec::new(), 1);
    while letters.len() < most {
        let found =
            store.jobs.get_first_raw_message_by_subject(store.layout.subjects.all(LaneMessage::Dead), next).await;
        let found = or_none(found).map_err(|error| QueueError::store("reading dead letters", error))?;
        let Some(message) = found else { break };
        next = message.sequence + 1;
        letters.extend(letter(store, &message));
    }
    Ok(letters)
}

fn letter(store: &Store, message: &StreamMessage) -> Option<DeadLetter> {
    let Lane { class, group } = store.layout.subjects.lane(LaneMessage::Dead, &message.subject)?;
    let header = |name: &str| message.headers.get(name).map(|value| value.as_str().to_owned());
    Some(DeadLetter {
        sequence: message.sequence,
        group,
        class: class.map(|class| class.to_string()),
        id: header(ID),
        payload: message.payload.clone(),
        reason: header(REASON).unwrap_or_default(),
        attempts: header(ATTEMPTS).and_then(|attempts| attempts.parse().ok()).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `MAX_REASON`.
    #[test]
    fn a_reason_is_one_line_of_a_thousand_characters() {
        assert_eq!(reason("no\nuser\r"), "no user ");
        for (length, kept) in [(1000, 1000), (1001, 1000), (1_000_000, 1000)] {
            assert_eq!(reason(&"\u{e9}".repeat(length)).chars().count(), kept);
        }
    }
}

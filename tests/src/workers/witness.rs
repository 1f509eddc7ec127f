//! A listener to all answers of schedulers, which is no worker itself.

use crate::patience::until;
use async_nats::Message;
use futures::StreamExt;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::time::{Span, Time};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::task::JoinSet;

/// Two schedulers' messages that are this close may reach two listeners in different orders.
const SAME_MOMENT: Span = Span::from_millis(100);
/// The beginning of the subjects for answers to clients.
const INBOXES: &str = "_INBOX.";
const RECONNECT: Duration = Duration::from_millis(5);

/// A message of a scheduler.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// When it arrived.
    pub at: Time,
    /// Its epoch.
    pub epoch: Epoch,
    /// The inbox of the connection that it answers; `None` for events.
    inbox: Option<String>,
    /// The permit that it grants, if it is a grant.
    pub granted: Option<String>,
}

/// A listener on a connection of its own. Dropping it ends it.
#[derive(Debug)]
pub struct Witness {
    clock: Clock,
    seen: Arc<Mutex<Vec<Sighting>>>,
    _listening: JoinSet<()>,
}

impl Witness {
    /// Listens to answers and events on the server at `nats_url`.
    pub async fn connect(nats_url: &str, clock: Clock) -> Self {
        let options = async_nats::ConnectOptions::new().reconnect_delay_callback(|_| RECONNECT);
        let client = options.connect(nats_url).await.unwrap();
        let seen = Arc::default();
        let mut listening = JoinSet::new();
        for subject in [format!("{INBOXES}>"), "rampmeter.event.>".to_owned()] {
            let mut messages = client.subscribe(subject).await.unwrap();
            let seen = Arc::clone(&seen);
            listening.spawn(async move {
                while let Some(message) = messages.next().await {
                    lock(&seen).extend(read(clock.now(), &message));
                }
            });
        }
        Witness { clock, seen, _listening: listening }
    }

    /// All messages so far.
    pub fn seen(&self) -> Vec<Sighting> {
        lock(&self.seen).clone()
    }

    /// The highest epoch so far.
    pub fn epoch(&self) -> Epoch {
        lock(&self.seen).iter().map(|sighting| sighting.epoch).max().unwrap_or(Epoch::NONE)
    }

    /// How long after `since` the first message of an epoch above `epoch` came, and its first
    /// grant.
    pub async fn successor(&self, epoch: Epoch, since: Time) -> Takeover {
        let mut heard = None;
        let granted = until("a successor grants", async || {
            let seen = lock(&self.seen);
            let newer = |sighting: &&Sighting| sighting.epoch > epoch;
            heard = heard.or_else(|| seen.iter().find(newer).map(|sighting| sighting.at));
            let grant = seen.iter().rev().take_while(|sighting| sighting.at >= since).filter(newer);
            grant.filter(|sighting| sighting.granted.is_some()).last().map(|sighting| sighting.at)
        });
        let granted = granted.await.since(since);
        Takeover { heard: heard.map_or(granted, |at| at.since(since)), granted }
    }

    /// How long after `since` the first grant came.
    pub async fn grants_after(&self, since: Time) -> Span {
        until("a scheduler grants", async || self.first_grant_since(since)).await.since(since)
    }

    /// When the first grant after `since` came, if there was one.
    pub fn first_grant_since(&self, since: Time) -> Option<Time> {
        let seen = lock(&self.seen);
        let after = seen.iter().rev().take_while(|sighting| sighting.at >= since);
        after.filter(|sighting| sighting.granted.is_some()).last().map(|sighting| sighting.at)
    }

    /// How many answers of epochs below `epoch` came after `since`.
    pub fn answers_of_before(&self, epoch: Epoch, since: Time) -> usize {
        let seen = lock(&self.seen);
        let after = seen.iter().rev().take_while(|sighting| sighting.at >= since);
        after.filter(|sighting| sighting.inbox.is_some() && sighting.epoch < epoch).count()
    }

    /// The longest time without any grant that ended after `from`, until now.
    pub fn longest_gap(&self, from: Time) -> Span {
        let seen = lock(&self.seen);
        let grants = seen.iter().filter(|sighting| sighting.granted.is_some() && sighting.at >= from);
        let times: Vec<Time> =
            std::iter::once(from).chain(grants.map(|grant| grant.at)).chain([self.clock.now()]).collect();
        times.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or(Span::ZERO)
    }

    /// Grants of a lower epoch than the connection has already seen, and used permits without a
    /// timely grant.
    pub fn late_answers(&self, used: &BTreeSet<String>) -> LateAnswers {
        let (mut late, mut in_time) = (BTreeSet::new(), BTreeSet::new());
        let mut known: BTreeMap<String, KnownEpoch> = BTreeMap::new();
        for sighting in self.seen() {
            let Some(inbox) = &sighting.inbox else { continue };
            let is_late = known.entry(inbox.clone()).or_default().note(&sighting);
            if let Some(id) = sighting.granted {
                if is_late { &mut late } else { &mut in_time }.insert(id);
            }
        }
        let acted_upon = late.iter().filter(|id| used.contains(*id) && !in_time.contains(*id)).count();
        LateAnswers { seen: late.len(), acted_upon }
    }
}

/// The duration of a change of leaders.
#[derive(Clone, Copy, Debug)]
pub struct Takeover {
    /// The time until the successor's first message.
    pub heard: Span,
    /// The time until its first grant.
    pub granted: Span,
}

/// Answers of leaders that had been replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateAnswers {
    /// The permits that they granted.
    pub seen: usize,
    /// Permits that a worker used although no other leader had granted them.
    pub acted_upon: usize,
}

/// The highest epoch that a connection was answered in.
#[derive(Default)]
struct KnownEpoch {
    epoch: Epoch,
    /// The highest epoch so far, and since when.
    newest: (Epoch, Time),
}

impl KnownEpoch {
    /// Whether `sighting` is of an epoch that had passed.
    fn note(&mut self, sighting: &Sighting) -> bool {
        if sighting.at > self.newest.1 + SAME_MOMENT {
            self.epoch = self.newest.0;
        }
        if sighting.epoch > self.newest.0 {
            self.newest = (sighting.epoch, sighting.at);
        }
        sighting.epoch < self.epoch
    }
}

fn lock(seen: &Mutex<Vec<Sighting>>) -> MutexGuard<'_, Vec<Sighting>> {
    seen.lock().expect("no holder of the lock panics")
}

/// Inboxes carry other messages too; only those of schedulers have an epoch. No scheduler has epoch
/// zero.
fn read(at: Time, message: &Message) -> Vec<Sighting> {
    let one_or_many = match serde_json::from_slice(&message.payload) {
        Ok(Value::Array(answers)) => answers,
        Ok(answer) => vec![answer],
        Err(_) => return Vec::new(),
    };
    // The last token of a reply subject is the number of the batch.
    let inbox = message.subject.rsplit_once('.').filter(|(inbox, _)| inbox.starts_with(INBOXES));
    let inbox = inbox.map(|(inbox, _)| inbox.to_owned());
    one_or_many.iter().filter_map(|answer| sighting(at, inbox.clone(), answer)).collect()
}

fn sighting(at: Time, inbox: Option<String>, answer: &Value) -> Option<Sighting> {
    let epoch = answer["epoch"].as_u64().map(Epoch::new).filter(|epoch| *epoch > Epoch::NONE)?;
    let granted = (answer["status"] == "granted").then(|| answer["id"].as_str().map(str::to_owned)).flatten();
    Some(Sighting { at, epoch, inbox, granted })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Span::from_millis(ms)
    }

    fn grant(ms: u64, epoch: u64, id: &str) -> Sighting {
        // Permits with capital letters belong to another connection.
        let inbox = if id < "a" { "other" } else { "one" };
        Sighting { at: at(ms), epoch: Epoch::new(epoch), inbox: Some(inbox.to_owned()), granted: Some(id.to_owned()) }
    }

    fn check(seen: Vec<Sighting>, used: &[&str], late: usize, acted_upon: usize) {
        let witness = Witness { clock: Clock::start(), seen: Arc::new(Mutex::new(seen)), _listening: JoinSet::new() };
        let used = used.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(witness.late_answers(&used), LateAnswers { seen: late, acted_upon });
    }

    #[test]
    fn an_answer_is_late_once_its_worker_knows_of_the_next_leader() {
        check(vec![grant(0, 1, "a"), grant(10, 2, "b"), grant(20, 1, "c")], &["a", "b", "c"], 0, 0);
        check(vec![grant(0, 1, "a"), grant(10, 2, "b"), grant(900, 1, "c")], &["a", "b"], 1, 0);
        check(vec![grant(0, 1, "a"), grant(10, 2, "b"), grant(900, 1, "c")], &["c"], 1, 1);
        check(vec![grant(0, 1, "a"), grant(10, 2, "B"), grant(900, 1, "c")], &["c"], 0, 0);
        check(vec![grant(10, 2, "c"), grant(900, 1, "c")], &["c"], 1, 0);
        check(vec![grant(10, 2, "b"), grant(900, 1, "c"), grant(950, 2, "c")], &["c"], 1, 0);
    }
}

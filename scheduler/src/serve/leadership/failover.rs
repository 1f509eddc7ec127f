//! Standing by, until nobody leads a resource.

use crate::serve::health::Duty;
use crate::serve::leadership::last_seen::{LastSeenRecord, note};
use crate::serve::leadership::resource_leader::ResourceLeader;
use crate::store::{FoundState, parse};
use async_nats::RequestErrorKind;
use async_nats::jetstream::kv;
use futures::StreamExt;
use rampmeter_protocol::time::{Span, Time};
use std::time::Duration;

/// Pause between probes of a leader.
const PROBE_EVERY: Duration = Duration::from_millis(80);
/// How long one probe waits for its answer.
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);
/// A leader that has not answered for so long is replaced. Should it be merely slow, it has lost nothing but the lead.
const SILENT_FOR: Span = Span::from_millis(700);
/// A leader that answers and does not renew its mark for so long is replaced: it can't reach the store. An election of the
/// store's own leader takes less.
const LEASE: Span = Span::from_secs(12);
/// How long a resource is left to the scheduler that its last leader has named.
const COURTESY: Span = Span::from_millis(500);
/// Pause after the store could not be read.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// A leader subscribes right after the write that makes it one.
const SUBSCRIBING: Span = Span::from_millis(100);

/// Whose a resource is.
enum Claim {
    /// The store does not know it.
    Unknown,
    /// Its last leader has released it, or was this very process.
    Nobodys,
    /// It was left to another scheduler just now.
    Successors,
    /// Somebody leads it.
    Leaders(String),
}

/// What a leader's private subject says.
enum Sign {
    /// It lives.
    Alive,
    /// Nobody is there.
    Gone,
    /// No answer came.
    Silent(String),
}

impl ResourceLeader {
    /// Returns when nobody leads any more, and it is this scheduler's turn.
    pub(crate) async fn until_vacant(&mut self) {
        while let Err(error) = self.look_at_store().await {
            let reason = self.reason(&error);
            self.duty(Duty::Troubled { reason });
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        let mut watch = self.context.store.watch(self.resource.name()).await.ok();
        let mut heard_at = self.now();
        loop {
            let vacant = match self.claim() {
                Claim::Unknown => self.nobody_answers().await,
                Claim::Nobodys => self.takes_turn().await,
                Claim::Successors => false,
                Claim::Leaders(leader) => self.is_lost(&leader, &mut heard_at).await || self.is_stale().await,
            };
            if vacant {
                return;
            }
            if self.pause(&mut watch).await {
                heard_at = self.now();
            }
        }
    }

    /// Whose the resource is, as far as the record tells.
    fn claim(&self) -> Claim {
        let Some(LastSeenRecord { record, since, .. }) = &self.seen else { return Claim::Unknown };
        let me = &self.context.leader;
        match &record.successor {
            _ if !record.released && record.leader != *me => Claim::Leaders(record.leader.clone()),
            Some(successor) if successor != me && self.now().since(*since) < COURTESY => Claim::Successors,
            Some(_) | None => Claim::Nobodys,
        }
    }

    /// Whether `leader` is gone, or has been silent for too long, and it is this scheduler's turn.
    async fn is_lost(&mut self, leader: &str, heard_at: &mut Time) -> bool {
        self.context.peers.leads(self.resource.name(), leader);
        match self.probe(leader).await {
            Sign::Alive => {
                *heard_at = self.now();
                self.duty(Duty::Standby);
                false
            }
            Sign::Gone if self.has_subscribed() => {
                self.context.peers.gone(leader);
                self.takes_turn().await
            }
            Sign::Gone => false,
            Sign::Silent(reason) => {
                tracing::debug!(resource = %self.resource.name(), reason, "the leader is silent");
                self.now().since(*heard_at) > SILENT_FOR && self.takes_turn().await
            }
        }
    }

    /// Whether the present leader must have subscribed by now, if it ever did.
    fn has_subscribed(&self) -> bool {
        let by_now = |seen: &LastSeenRecord| seen.record.mark > 1 || self.now().since(seen.led_since) >= SUBSCRIBING;
        self.seen.as_ref().is_some_and(by_now)
    }

    /// Whether nobody leads, of whom the store knows nothing: what they know is better than a fresh start.
    async fn nobody_answers(&mut self) -> bool {
        let status = self.context.subjects.status(self.resource.name());
        let answer = self.context.client.request(status, "".into());
        let answered = matches!(tokio::time::timeout(PROBE_TIMEOUT, answer).await, Ok(Ok(_)));
        if answered {
            self.duty(Duty::Standby);
            self.look_at_store().await.ok();
        }
        !answered
    }

    /// Lets those go first who lead less. Whether nobody has.
    async fn takes_turn(&mut self) -> bool {
        self.context.peers.vacant(self.resource.name());
        let head_start = self.context.peers.head_start(self.now(), self.resource.name());
        if head_start == Span::ZERO {
            return true;
        }
        let before = self.seen.as_ref().map(|seen| seen.revision);
        tokio::time::sleep(head_start.duration()).await;
        self.look_at_store().await.is_ok() && self.seen.as_ref().map(|seen| seen.revision) == before
    }

    /// Whether the record has not been renewed for too long, as far as the store tells.
    async fn is_stale(&mut self) -> bool {
        self.has_expired() && self.look_at_store().await.is_ok() && self.has_expired()
    }

    fn has_expired(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| self.now().since(seen.since) > LEASE)
    }

    /// Reads the record.
    async fn look_at_store(&mut self) -> Result<(), String> {
        let found = self.context.store.read(self.resource.name()).await.map_err(|error| error.to_string())?;
        if let FoundState::Record(record) = found.state {
            if self.seen.is_none() {
                self.first_server = self.context.store.server();
            }
            note(&mut self.seen, self.context.clock.now(), *record, found.revision);
        }
        Ok(())
    }

    /// Waits for the next probe, or for news of the record. Whether somebody else leads now.
    async fn pause(&mut self, watch: &mut Option<kv::Watch>) -> bool {
        let news = async {
            match watch {
                Some(watch) => watch.next().await,
                None => std::future::pending().await,
            }
        };
        let entry = tokio::select! {
            entry = news => entry,
            () = tokio::time::sleep(PROBE_EVERY) => return false,
        };
        let Some(Ok(entry)) = entry else {
            *watch = self.context.store.watch(self.resource.name()).await.ok();
            tokio::time::sleep(PROBE_EVERY).await;
            return false;
        };
        let Ok(record) = parse(&entry) else { return false };
        let leader = self.seen.as_ref().map(|seen| seen.record.leader.clone());
        let another = leader.as_ref() != Some(&record.leader);
        note(&mut self.seen, self.context.clock.now(), record, entry.revision) && another
    }

    async fn probe(&self, leader: &str) -> Sign {
        let subject = self.context.subjects.probe(self.resource.name(), leader);
        let answer = self.context.client.request(subject, "".into());
        match tokio::time::timeout(PROBE_TIMEOUT, answer).await {
            Ok(Ok(_)) => Sign::Alive,
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Sign::Gone,
            Ok(Err(error)) => Sign::Silent(error.to_string()),
            Err(elapsed) => Sign::Silent(elapsed.to_string()),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.context.clock.now()
    }
}

//! Stands by until no scheduler leads a resource.

use crate::health::ServingState;
use crate::leadership::last_seen::LastSeenRecord;
use crate::leadership::resource_state::ResourceState;
use async_nats::RequestErrorKind;
use async_nats::jetstream::kv;
use futures::StreamExt;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_store::Revision;
use std::sync::Arc;
use std::time::Duration;

const PROBE_EVERY: Duration = Duration::from_millis(80);
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);
/// A leader that has not answered for this long is replaced. One that was merely slow loses only the lead.
const SILENT_FOR: Span = Span::from_millis(700);
/// A leader that answers but can't store a checkpoint for this long is replaced; the store's own elections take less.
const LONGEST_WITHOUT_CHECKPOINT: Span = Span::from_secs(12);
/// How long a released resource is left to the scheduler named in the record.
const COURTESY: Span = Span::from_millis(500);
/// Pause after a failed attempt to read the store.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// The time in which a new leader subscribes, from the write that made it the leader.
const SUBSCRIBING: Span = Span::from_millis(100);

enum RecordedLeader {
    Unknown,
    /// The last leader has released the resource, or was this process.
    Released,
    /// The last leader has just released the resource for another scheduler.
    LeftToAnother,
    Led(String),
}

enum ProbeResult {
    Alive,
    /// No process subscribes to its subject.
    Gone,
    Silent(String),
}

/// Watches the leader of one resource, which is replaced if it is gone, silent, or writes no checkpoint.
pub(crate) struct Failover<'a> {
    state: &'a mut ResourceState,
    answered_at: Time,
    /// Whether no process subscribes to the leader's subject any more.
    is_gone: bool,
}

impl<'a> Failover<'a> {
    pub(crate) fn new(state: &'a mut ResourceState) -> Self {
        Failover { answered_at: state.now(), is_gone: false, state }
    }

    /// Waits for a vacancy and its turn. Returns whether the last leader is gone and gets no further client messages.
    pub(crate) async fn until_vacant(mut self) -> bool {
        while let Err(error) = self.state.look().await {
            let reason = self.state.reason(&error);
            self.state.set_duty(ServingState::Troubled { reason });
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        let mut watch = None;
        self.answered_at = self.state.now();
        loop {
            let vacant = match self.recorded_leader() {
                RecordedLeader::Unknown => self.nothing_answers().await,
                RecordedLeader::Released => self.takes_turn().await,
                RecordedLeader::LeftToAnother => false,
                RecordedLeader::Led(leader) => self.is_lost(&leader).await || self.is_stale().await,
            };
            if vacant {
                return self.is_gone;
            }
            // A resource that nobody leads needs no watch.
            if watch.is_none() {
                watch = self.watch().await;
            }
            if self.pause(&mut watch).await {
                self.answered_at = self.state.now();
            }
        }
    }

    async fn watch(&self) -> Option<kv::Watch> {
        self.state.context.store.watch(&self.state.name).await.ok()
    }

    fn recorded_leader(&self) -> RecordedLeader {
        let Some(LastSeenRecord { record, since, .. }) = self.state.seen() else { return RecordedLeader::Unknown };
        let me = &self.state.context.leader;
        if !record.released && record.leader != *me {
            return RecordedLeader::Led(record.leader.clone());
        }
        match &record.successor {
            Some(successor) if successor != me && self.state.now().since(*since) < COURTESY => {
                RecordedLeader::LeftToAnother
            }
            Some(_) | None => RecordedLeader::Released,
        }
    }

    /// Returns whether `leader` is gone or was silent for too long, and it is this scheduler's turn.
    async fn is_lost(&mut self, leader: &str) -> bool {
        let peers = Arc::clone(&self.state.context.peers);
        peers.leads(&self.state.name, leader);
        let probed = self.probe(leader).await;
        self.is_gone = matches!(probed, ProbeResult::Gone);
        match probed {
            ProbeResult::Alive => {
                self.answered_at = self.state.now();
                self.state.set_duty(ServingState::Standby);
                false
            }
            ProbeResult::Gone if self.has_subscribed() => {
                peers.gone(leader);
                self.takes_turn().await
            }
            ProbeResult::Gone => false,
            ProbeResult::Silent(reason) => {
                tracing::debug!(resource = %self.state.name, reason, "the leader is silent");
                self.state.now().since(self.answered_at) > SILENT_FOR && self.takes_turn().await
            }
        }
    }

    /// Returns whether the present leader, if alive, has certainly subscribed by now.
    fn has_subscribed(&self) -> bool {
        let by_now =
            |seen: &LastSeenRecord| seen.record.checkpoint > 1 || self.state.now().since(seen.led_since) >= SUBSCRIBING;
        self.state.seen().is_some_and(by_now)
    }

    /// Returns whether no scheduler answers for a resource without a record, since its state would beat a fresh start.
    async fn nothing_answers(&mut self) -> bool {
        let context = &self.state.context;
        let status = context.subjects.status(&self.state.name);
        let answer = context.client.request(status, "".into());
        let answered = matches!(tokio::time::timeout(PROBE_TIMEOUT, answer).await, Ok(Ok(_)));
        if answered {
            self.state.set_duty(ServingState::Standby);
            self.state.look().await.ok();
        }
        !answered
    }

    /// Lets schedulers that lead fewer resources go first. Returns whether the resource is still vacant.
    async fn takes_turn(&mut self) -> bool {
        let peers = Arc::clone(&self.state.context.peers);
        peers.vacant(&self.state.name);
        let head_start = peers.head_start(self.state.now(), &self.state.name);
        if head_start == Span::ZERO {
            return true;
        }
        let before = self.revision();
        tokio::time::sleep(head_start.duration()).await;
        self.state.look().await.is_ok() && self.revision() == before
    }

    fn revision(&self) -> Option<Revision> {
        self.state.seen().map(|seen| seen.revision)
    }

    /// Returns whether neither the store nor this process has received a checkpoint for too long.
    async fn is_stale(&mut self) -> bool {
        self.has_expired() && self.state.look().await.is_ok() && self.has_expired()
    }

    fn has_expired(&self) -> bool {
        let heard_at = self.state.memory.heard_at();
        let last = self.state.seen().map(|seen| heard_at.map_or(seen.since, |heard_at| heard_at.max(seen.since)));
        last.is_some_and(|last| self.state.now().since(last) > LONGEST_WITHOUT_CHECKPOINT)
    }

    /// Waits for the next probe or a change of the record. Returns whether another scheduler leads now.
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
            *watch = self.watch().await;
            tokio::time::sleep(PROBE_EVERY).await;
            return false;
        };
        let Ok(record) = self.state.context.store.parse(&entry) else { return false };
        let another = self.state.seen().is_none_or(|seen| seen.record.leader != record.leader);
        self.state.note(record, entry.revision) && another
    }

    async fn probe(&self, leader: &str) -> ProbeResult {
        let context = &self.state.context;
        let subject = context.subjects.probe(&self.state.name, leader);
        let answer = context.client.request(subject, "".into());
        match tokio::time::timeout(PROBE_TIMEOUT, answer).await {
            Ok(Ok(_)) => ProbeResult::Alive,
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => ProbeResult::Gone,
            Ok(Err(error)) => ProbeResult::Silent(error.to_string()),
            Err(elapsed) => ProbeResult::Silent(elapsed.to_string()),
        }
    }
}

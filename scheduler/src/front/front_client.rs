//! Asking the leader of a resource: in this process, or over NATS as any other client does.

use crate::serve::messages::inbound::{Address, Endpoint, Inbound};
use crate::serve::messages::message_trace::MessageTrace;
use crate::serve::permits::answers::loop_request::Report;
use crate::serve::permits::loop_handle::{LoopWatch, Reporter};
use anyhow::Context;
use async_nats::Client;
use async_nats::connection::State;
use bytes::Bytes;
use rampmeter_nats::inbox::{Inbox, InboxAddress, InboxReply};
use rampmeter_protocol::bounds::MAX_BATCH;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::lateness::BaseDelay;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long sending may wait for room in the buffer of the NATS client. After this time, the
/// connection counts as lost.
const SEND_TIMEOUT: Duration = Duration::from_millis(500);
/// Replies that may wait unread: an answer and a place in the queue for each element of a batch.
/// Further replies are lost, and asked for again.
const MAX_UNREAD: usize = 2 * MAX_BATCH;

/// A connection for the requests of HTTP clients. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct FrontClient {
    client: Client,
    address: InboxAddress,
    pending: Arc<PendingReplies>,
    led: Arc<BTreeMap<Name, LoopWatch>>,
    /// How long answers take, for each resource that a scheduler has answered for. The lock guards
    /// the map, for the time of one message.
    base_delays: Arc<Mutex<HashMap<Name, BaseDelay>>>,
    subjects: Subjects,
    clock: Clock,
}

/// The tasks that wait for replies. The lock guards the map, for the time of one look-up.
#[derive(Debug, Default)]
struct PendingReplies {
    numbers: AtomicU64,
    waiting: Mutex<HashMap<u64, mpsc::Sender<InboxReply>>>,
}

/// One question, which may be asked several times. When it is dropped, its replies are dropped too.
#[derive(Debug)]
pub(super) struct RepeatedQuestion {
    front_client: FrontClient,
    resource: Name,
    number: u64,
    /// Whether the question was asked before.
    asked: bool,
    here: mpsc::Sender<InboxReply>,
    replies: mpsc::Receiver<InboxReply>,
    /// The trace that the question belongs to.
    trace: Option<Box<MessageTrace>>,
}

impl FrontClient {
    /// Asks on the connection of `client`. Resources in `led` that this process leads are asked for
    /// directly.
    ///
    /// # Errors
    /// If the connection is closed.
    pub(super) async fn start(
        client: Client,
        subjects: Subjects,
        led: BTreeMap<Name, LoopWatch>,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let mut inbox = Inbox::open(&client).await.context("no subscription for answers to the HTTP front")?;
        let (address, pending) = (inbox.address().clone(), Arc::new(PendingReplies::default()));
        let shown = pending.clone();
        tokio::spawn(async move {
            while let Some((number, reply)) = inbox.next().await {
                shown.hand_over(number, reply);
            }
        });
        Ok(FrontClient { client, address, pending, led: Arc::new(led), base_delays: Arc::default(), subjects, clock })
    }

    pub(super) fn subjects(&self) -> &Subjects {
        &self.subjects
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether the resource is in this scheduler's own configuration: such a resource certainly
    /// exists.
    pub(super) fn knows(&self, resource: &Name) -> bool {
        self.led.contains_key(resource)
    }

    /// The resources of this scheduler's own configuration.
    pub(super) fn resources(&self) -> impl Iterator<Item = &Name> {
        self.led.keys()
    }

    /// Whether this process leads the resource.
    pub(super) fn leads(&self, resource: &Name) -> bool {
        self.led.get(resource).is_some_and(|led| led.borrow().is_some())
    }

    /// The state of a resource that this process leads.
    pub(super) async fn report(&self, resource: &Name) -> Option<Report> {
        Reporter::new(resource.clone(), self.led.get(resource)?.clone()).report().await
    }

    /// A new question, about `resource`.
    pub(super) fn exchange(&self, resource: &Name) -> RepeatedQuestion {
        let number = self.pending.numbers.fetch_add(1, Ordering::Relaxed);
        let (sender, replies) = replies();
        let (front_client, resource) = (self.clone(), resource.clone());
        RepeatedQuestion { front_client, resource, number, asked: false, here: sender, replies, trace: None }
    }

    /// Sends a message that wants no answer. Without a connection it is not sent at all, because it
    /// would come too late.
    pub(super) async fn publish(&self, subject: String, payload: Vec<u8>) {
        if self.is_connected() {
            self.client.publish(subject, payload.into()).await.ok();
        }
    }

    /// Waits until all messages are on their way.
    pub(super) async fn flush(&self) {
        tokio::time::timeout(SEND_TIMEOUT, self.client.flush()).await.ok();
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }
}

impl RepeatedQuestion {
    /// Puts the question into this trace.
    pub(super) fn in_trace(mut self, trace: Option<Box<MessageTrace>>) -> Self {
        self.trace = trace;
        self
    }

    /// Asks at `endpoint`, and returns whether that could be sent. Without a connection this
    /// process is not asked either, because the leader may have changed. A repeated question goes
    /// over NATS for the same reason.
    pub(super) async fn ask(&mut self, endpoint: &Endpoint, payload: Vec<u8>) -> bool {
        if !self.front_client.is_connected() {
            return false;
        }
        let (payload, again) = (Bytes::from(payload), std::mem::replace(&mut self.asked, true));
        if again {
            self.listen_anew();
        }
        !again && self.ask_here(endpoint, payload.clone()) || self.ask_over_nats(endpoint, payload).await
    }

    /// Ignores answers to an earlier sending from now on, so that it is known when each answer was
    /// asked for.
    fn listen_anew(&mut self) {
        let mut fresh = self.front_client.exchange(&self.resource).in_trace(self.trace.take());
        fresh.asked = true;
        *self = fresh;
    }

    /// Asks this process, if it leads and has room for the question.
    fn ask_here(&self, endpoint: &Endpoint, payload: Bytes) -> bool {
        let Some(led) = self.front_client.led.get(&self.resource) else { return false };
        let (reply, trace) = (Some(Address::Here(self.here.clone())), self.trace.clone());
        let inbound = Inbound { endpoint: endpoint.clone(), reply, payload, trace };
        led.borrow().as_ref().is_some_and(|handle| handle.inbound.try_send(inbound).is_ok())
    }

    async fn ask_over_nats(&self, endpoint: &Endpoint, payload: Bytes) -> bool {
        self.front_client.pending.lock().entry(self.number).or_insert_with(|| self.here.clone());
        let (subject, reply) =
            (endpoint.subject(&self.front_client.subjects, &self.resource), self.front_client.address.of(self.number));
        let client = &self.front_client.client;
        let sending = async {
            match &self.trace {
                Some(trace) => client.publish_with_reply_and_headers(subject, reply, trace.headers(), payload).await,
                None => client.publish_with_reply(subject, reply, payload).await,
            }
        };
        matches!(tokio::time::timeout(SEND_TIMEOUT, sending).await, Ok(Ok(())))
    }

    /// Gives access to the times that answers take.
    pub(super) fn with_base_delay(&self, look: impl FnOnce(&mut BaseDelay)) {
        let mut known = self.front_client.base_delays.lock().unwrap_or_else(PoisonError::into_inner);
        look(known.entry(self.resource.clone()).or_default());
    }

    /// The next reply.
    pub(super) async fn next(&mut self) -> InboxReply {
        self.replies.recv().await.expect("this keeps a sender itself")
    }
}

impl Drop for RepeatedQuestion {
    fn drop(&mut self) {
        self.front_client.pending.lock().remove(&self.number);
    }
}

fn replies() -> (mpsc::Sender<InboxReply>, mpsc::Receiver<InboxReply>) {
    mpsc::channel(MAX_UNREAD)
}

impl PendingReplies {
    fn hand_over(&self, number: u64, reply: InboxReply) {
        if let Some(waiting) = self.lock().get(&number) {
            waiting.try_send(reply).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, mpsc::Sender<InboxReply>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_nothing_reads_are_lost_beyond_a_bound() {
        let (pending, (sender, mut replies)) = (PendingReplies::default(), replies());
        pending.lock().insert(7, sender);
        for _ in 0..10_000 {
            pending.hand_over(7, InboxReply::NoResponders);
        }
        let unread = std::iter::from_fn(|| replies.try_recv().ok()).count();
        assert_eq!(unread, MAX_UNREAD);
    }
}

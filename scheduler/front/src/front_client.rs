//! Asks the leader of a resource, in this process or over NATS like any other client.

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
use rampmeter_serve::messages::inbound::{Address, Endpoint, Inbound, NumberedReply};
use rampmeter_serve::messages::message_trace::MessageTrace;
use rampmeter_serve::permits::answers::loop_request::Report;
use rampmeter_serve::permits::loop_handle::{LoopWatch, Reporter};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long sending may wait for room in the NATS client's buffer. Then the connection counts as lost.
const SEND_TIMEOUT: Duration = Duration::from_millis(500);
/// Bound on unread replies: two for each element of a batch. Further ones are lost, and requested again.
const MAX_UNREAD: usize = 2 * MAX_BATCH;
/// A reply's number is its exchange's, with the number of the message in the lowest bits.
const MESSAGE_BITS: u32 = 20;
const LAST_MESSAGE: u64 = (1 << MESSAGE_BITS) - 1;

/// The connection for the requests of HTTP clients. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct FrontClient {
    client: Client,
    address: InboxAddress,
    pending: Arc<PendingReplies>,
    led: Arc<BTreeMap<Name, LoopWatch>>,
    /// How long answers take, for each resource that a scheduler has answered for. Locked for one message.
    base_delays: Arc<Mutex<HashMap<Name, BaseDelay>>>,
    pub(super) subjects: Subjects,
    pub(super) clock: Clock,
}

/// The tasks that wait for replies. The lock is held for one look-up.
#[derive(Debug, Default)]
struct PendingReplies {
    numbers: AtomicU64,
    waiting: Mutex<HashMap<u64, mpsc::Sender<NumberedReply>>>,
}

/// Messages about one resource, and their replies. Replies that arrive after it is dropped are discarded.
#[derive(Debug)]
pub(super) struct Exchange {
    front_client: FrontClient,
    resource: Name,
    number: u64,
    /// Whether no reply was awaited yet.
    is_fresh: bool,
    here: mpsc::Sender<NumberedReply>,
    replies: mpsc::Receiver<NumberedReply>,
    trace: Option<Box<MessageTrace>>,
}

impl FrontClient {
    /// Subscribes to replies on the connection of `client`, and fails if that is closed. Resources in `led`
    /// that this process leads are asked directly.
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

    /// Returns whether the resource is in this scheduler's own configuration, and thus certainly exists.
    pub(super) fn knows(&self, resource: &Name) -> bool {
        self.led.contains_key(resource)
    }

    /// Returns the resources of this scheduler's own configuration.
    pub(super) fn resources(&self) -> impl Iterator<Item = &Name> {
        self.led.keys()
    }

    pub(super) fn leads(&self, resource: &Name) -> bool {
        self.led.get(resource).is_some_and(|led| led.borrow().is_some())
    }

    /// Requests a report on a resource that this process leads.
    pub(super) async fn report(&self, resource: &Name) -> Option<Report> {
        Reporter::new(resource.clone(), self.led.get(resource)?.clone()).report().await
    }

    pub(super) fn exchange(&self, resource: &Name, trace: Option<Box<MessageTrace>>) -> Exchange {
        let number = self.pending.numbers.fetch_add(1, Ordering::Relaxed);
        let (here, replies) = replies();
        let (front_client, resource) = (self.clone(), resource.clone());
        Exchange { front_client, resource, number, is_fresh: true, here, replies, trace }
    }

    /// Sends one question, and waits for the reply. A question that can't be sent counts as having no responders.
    pub(super) async fn ask_once(
        &self,
        resource: &Name,
        endpoint: &Endpoint,
        payload: Vec<u8>,
        longest: Duration,
    ) -> Option<InboxReply> {
        let mut exchange = self.exchange(resource, None);
        if !exchange.ask(endpoint, 0, payload).await {
            return Some(InboxReply::NoResponders);
        }
        tokio::time::timeout(longest, exchange.next()).await.ok().map(|(_, reply)| reply)
    }

    pub(super) async fn flush(&self) {
        tokio::time::timeout(SEND_TIMEOUT, self.client.flush()).await.ok();
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }
}

impl Exchange {
    /// Sends a message to `endpoint`, and returns whether that was possible. Replies carry the message's number. The
    /// first messages go to this process if it leads and is connected; without a connection the leader may have
    /// changed. For the same reason all messages after the first wait for a reply go over NATS.
    pub(super) async fn ask(&self, endpoint: &Endpoint, message: u64, payload: Vec<u8>) -> bool {
        if !self.front_client.is_connected() {
            return false;
        }
        let payload = Bytes::from(payload);
        self.is_fresh && self.ask_here(endpoint, message, payload.clone())
            || self.ask_over_nats(endpoint, message, payload).await
    }

    /// Sends a message to this process, if it leads and has room.
    fn ask_here(&self, endpoint: &Endpoint, message: u64, payload: Bytes) -> bool {
        let Some(led) = self.front_client.led.get(&self.resource) else { return false };
        let (reply, trace) = (Some(Address::Here(self.here.clone(), message)), self.trace.clone());
        let inbound = Inbound { endpoint: endpoint.clone(), reply, payload, trace };
        led.borrow().as_ref().is_some_and(|handle| handle.inbound.try_send(inbound).is_ok())
    }

    async fn ask_over_nats(&self, endpoint: &Endpoint, message: u64, payload: Bytes) -> bool {
        let FrontClient { client, subjects, address, pending, .. } = &self.front_client;
        pending.lock().entry(self.number).or_insert_with(|| self.here.clone());
        let subject = endpoint.subject(subjects, &self.resource);
        let reply = address.of(self.number << MESSAGE_BITS | message & LAST_MESSAGE);
        let sending = async {
            match &self.trace {
                Some(trace) => client.publish_with_reply_and_headers(subject, reply, trace.headers(), payload).await,
                None => client.publish_with_reply(subject, reply, payload).await,
            }
        };
        matches!(tokio::time::timeout(SEND_TIMEOUT, sending).await, Ok(Ok(())))
    }

    pub(super) fn with_base_delay(&self, look: impl FnOnce(&mut BaseDelay)) {
        let mut known = self.front_client.base_delays.lock().unwrap_or_else(PoisonError::into_inner);
        look(known.entry(self.resource.clone()).or_default());
    }

    /// Returns the next reply, with the number of its message.
    pub(super) async fn next(&mut self) -> NumberedReply {
        self.is_fresh = false;
        self.replies.recv().await.expect("this keeps a sender itself")
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.front_client.pending.lock().remove(&self.number);
    }
}

fn replies() -> (mpsc::Sender<NumberedReply>, mpsc::Receiver<NumberedReply>) {
    mpsc::channel(MAX_UNREAD)
}

impl PendingReplies {
    fn hand_over(&self, number: u64, reply: InboxReply) {
        if let Some(waiting) = self.lock().get(&(number >> MESSAGE_BITS)) {
            waiting.try_send((number & LAST_MESSAGE, reply)).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, mpsc::Sender<NumberedReply>>> {
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
            pending.hand_over(7 << MESSAGE_BITS | 3, InboxReply::NoResponders);
            pending.hand_over(8 << MESSAGE_BITS | 3, InboxReply::NoResponders);
        }
        let unread: Vec<_> = std::iter::from_fn(|| replies.try_recv().ok()).collect();
        assert_eq!(unread, vec![(3, InboxReply::NoResponders); MAX_UNREAD]);
    }
}

//! Asking schedulers over NATS, as any other client does: whoever leads answers.

use anyhow::Context;
use async_nats::connection::State;
use async_nats::{Client, Subject};
use bytes::Bytes;
use rampmeter_protocol::bounds::MAX_BATCH;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::subject::Subjects;
use rampmeter_worker_sdk::inbox::{Inbox, InboxAddress, Reply};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Sending waits for room in the client's buffer; longer than this it is as good as disconnected.
const SEND_PATIENCE: Duration = Duration::from_millis(500);
/// Replies that may lie there unread: every element of a batch, and a word on the place in line of each. What is beyond is
/// asked for again.
const MAX_UNREAD: usize = 2 * MAX_BATCH;

/// A connection for the questions of HTTP clients. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    client: Client,
    address: InboxAddress,
    desk: Arc<Desk>,
    pub(super) subjects: Subjects,
    pub(super) clock: Clock,
}

/// Who waits for replies. The lock guards the map, for the time of one look-up.
#[derive(Debug, Default)]
struct Desk {
    numbers: AtomicU64,
    waiting: Mutex<HashMap<u64, mpsc::Sender<Reply>>>,
}

/// One question, which may be asked several times. Its replies are not waited for any more when it is dropped.
#[derive(Debug)]
pub(super) struct Exchange {
    asker: Asker,
    number: u64,
    replies: mpsc::Receiver<Reply>,
}

impl Asker {
    /// Asks on the connection of `client`.
    ///
    /// # Errors
    /// If that is closed.
    pub(super) async fn start(client: Client, subjects: Subjects, clock: Clock) -> anyhow::Result<Self> {
        let mut inbox = Inbox::open(&client).await.context("no subscription for answers to the HTTP front")?;
        let (address, desk) = (inbox.address().clone(), Arc::new(Desk::default()));
        let shown = desk.clone();
        tokio::spawn(async move {
            while let Some((number, reply)) = inbox.next().await {
                shown.hand_over(number, reply);
            }
        });
        Ok(Asker { client, address, desk, subjects, clock })
    }

    /// A new question.
    pub(super) fn exchange(&self) -> Exchange {
        let number = self.desk.numbers.fetch_add(1, Ordering::Relaxed);
        let (sender, replies) = mpsc::channel(MAX_UNREAD);
        self.desk.lock().insert(number, sender);
        Exchange { asker: self.clone(), number, replies }
    }

    /// Says something that wants no answer. While there is no connection it is not said at all: it would come too late.
    pub(super) async fn tell(&self, subject: String, payload: Vec<u8>) {
        if self.is_connected() {
            self.client.publish(subject, payload.into()).await.ok();
        }
    }

    /// Waits until all that was said is on its way.
    pub(super) async fn flush(&self) {
        tokio::time::timeout(SEND_PATIENCE, self.client.flush()).await.ok();
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }
}

impl Exchange {
    /// Asks; whether that could be sent.
    pub(super) async fn ask(&self, subject: &Subject, payload: Vec<u8>) -> bool {
        let reply = self.asker.address.of(self.number);
        let sending = self.asker.client.publish_with_reply(subject.clone(), reply, Bytes::from(payload));
        self.asker.is_connected() && matches!(tokio::time::timeout(SEND_PATIENCE, sending).await, Ok(Ok(())))
    }

    /// The next reply.
    pub(super) async fn next(&mut self) -> Reply {
        self.replies.recv().await.expect("the desk keeps the sender until this is dropped")
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.asker.desk.lock().remove(&self.number);
    }
}

impl Desk {
    fn hand_over(&self, number: u64, reply: Reply) {
        if let Some(waiting) = self.lock().get(&number) {
            waiting.try_send(reply).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, mpsc::Sender<Reply>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

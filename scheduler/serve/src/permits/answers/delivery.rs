//! The way out of a permit loop: answers and announcements are written, then published.

use crate::connection::round_trip;
use crate::messages::inbound::{Address, user_of};
use crate::messages::reply::{Outbox, Outgoing};
use crate::permits::answers::undelivered::Undelivered;
use async_nats::{Client, HeaderMap, Subject};
use bytes::Bytes;
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::news::News;
use rampmeter_protocol::subject::Subjects;
use serde::Serialize;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc::error::TrySendError;

/// Everything that leaves a loop, in the order in which it was written.
///
/// If an answer to a request that has waited reaches no client, `Undelivered` learns that.
#[derive(Debug)]
pub(crate) struct Delivery {
    client: Client,
    /// The first token of this process's own inboxes.
    user: Box<str>,
    outbox: Outbox,
    undelivered: Undelivered,
    /// Where announcements go.
    event: Address,
    /// Where this loop's own messages come in again.
    echo: Address,
}

impl Delivery {
    pub(crate) fn new(client: Client, subjects: &Subjects, resource: &Name) -> Self {
        let user = user_of(&client.new_inbox()).into();
        Delivery {
            client,
            user,
            outbox: Outbox::default(),
            undelivered: Undelivered::new(subjects, resource),
            event: Address::Subject(subjects.event(resource).into()),
            echo: Address::Subject(subjects.echo(resource).into()),
        }
    }

    pub(crate) fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    pub(crate) fn undelivered(&mut self) -> &mut Undelivered {
        &mut self.undelivered
    }

    /// Where the server reports answers that have reached no client.
    pub(crate) fn no_responders(&self) -> String {
        self.undelivered.all()
    }

    /// The NATS user that an answer goes to, as far as it is known: the first token of the inbox. A
    /// user that may read no inboxes of other users has such a token of its own. HTTP clients have
    /// the scheduler's own token, whether the front asks here or over NATS.
    pub(crate) fn user<'a>(&'a self, reply: &'a Address) -> &'a str {
        reply.user().unwrap_or(&self.user)
    }

    pub(crate) fn has_walk(&self) -> bool {
        self.undelivered.has_walk()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// How often the connection was made.
    pub(crate) fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Tells all workers.
    pub(crate) fn announce(&mut self, news: &News) {
        self.outbox.send(self.event.clone(), news);
    }

    /// Sends a message to this loop itself, on the way that requests and answers take.
    pub(crate) fn send_echo(&mut self, message: &impl Serialize) {
        self.outbox.send(self.echo.clone(), message);
    }

    /// Publishes all that was written.
    pub(crate) async fn publish(&mut self) {
        for Outgoing { to, waited, headers, payload } in self.outbox.drain() {
            match to {
                Address::Here(inbox, number) => {
                    let sent = inbox.try_send((number, InboxReply::Answer(payload)));
                    if let (Err(TrySendError::Closed(_)), Some(waited)) = (sent, waited) {
                        self.undelivered.note_here(waited);
                    }
                }
                Address::Subject(subject) => {
                    let notice_subject = waited.and_then(|waited| self.undelivered.notice_subject(&waited, &subject));
                    send(&self.client, subject, notice_subject, headers, payload).await;
                }
            }
        }
    }

    /// Publishes all that was written, and returns when the server has it.
    pub(crate) async fn flush(&mut self) -> anyhow::Result<()> {
        self.publish().await;
        round_trip(&self.client).await
    }
}

async fn send(client: &Client, to: Subject, reply: Option<Subject>, headers: Option<HeaderMap>, payload: Bytes) {
    let sent = match (reply, headers) {
        (None, None) => client.publish(to, payload).await,
        (None, Some(headers)) => client.publish_with_headers(to, headers, payload).await,
        (Some(reply), None) => client.publish_with_reply(to, reply, payload).await,
        (Some(reply), Some(headers)) => client.publish_with_reply_and_headers(to, reply, headers, payload).await,
    };
    if let Err(error) = sent {
        tracing::warn!(%error, "an answer could not be sent");
    }
}

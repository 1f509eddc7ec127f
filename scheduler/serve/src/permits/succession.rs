//! Keeps settles that arrive after the last state of this loop and before its successor has subscribed.
//!
//! Most settles have no reply subject, so their senders never repeat them. The old leader therefore stays
//! subscribed until its successor announces itself, and then publishes again what has come in, with the
//! clients' own reply subjects. Clients in other accounts get no answer, and repeat what they want
//! confirmed. A settle that the successor has received too changes nothing twice.

use crate::connection::round_trip;
use crate::messages::inbound::{Address, Endpoint, Inbound};
use crate::messages::message_trace::MessageTrace;
use crate::permits::answers::outbox::send;
use crate::permits::incoming::waiting_messages::WaitingMessages;
use async_nats::{Client, Message, Subject, SubscribeError, Subscriber};
use futures::StreamExt;
use futures::stream::SelectAll;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::news::News;
use rampmeter_protocol::subject::Subjects;

/// Keeps settles for a successor, within the bounds of waiting messages.
#[derive(Debug)]
pub(crate) struct Succession {
    client: Client,
    subject: Subject,
    settles: SelectAll<Subscriber>,
    /// Announcements of schedulers to all clients.
    news: Subscriber,
    epoch: Epoch,
    is_over: bool,
    kept: WaitingMessages,
}

impl Succession {
    /// Keeps settles from the end of the term `epoch` on, also from `accounts`. Fails if the connection is closed.
    pub(crate) async fn begin(
        client: &Client,
        subjects: &Subjects,
        resource: &Name,
        accounts: impl Iterator<Item = &str>,
        epoch: Epoch,
    ) -> Result<Self, SubscribeError> {
        let subject = Subject::from(subjects.settle(resource));
        let mut settles = SelectAll::new();
        settles.push(client.subscribe(subject.clone()).await?);
        for account in accounts {
            settles.push(client.subscribe(subjects.settle_of_account(resource, account)).await?);
        }
        Ok(Succession {
            settles,
            news: client.subscribe(subjects.event(resource)).await?,
            client: client.clone(),
            subject,
            epoch,
            is_over: false,
            kept: WaitingMessages::default(),
        })
    }

    /// Returns whether a successor has subscribed, or nothing more can arrive.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Keeps settles until a successor has subscribed. Cancel-safe.
    pub(crate) async fn keep_settles(&mut self) {
        while !self.is_over {
            tokio::select! {
                biased;
                settle = self.settles.next() => self.keep(settle),
                news = self.news.next() => self.is_over = news.is_none_or(|news| self.is_of_successor(&news)),
            }
        }
    }

    fn keep(&mut self, settle: Option<Message>) {
        let Some(Message { subject, reply, payload, headers, .. }) = settle else {
            self.is_over = true;
            return;
        };
        let reply = reply.filter(|_| subject == self.subject).map(Address::Subject);
        let trace = MessageTrace::of(headers.as_ref());
        self.kept.push(Inbound { endpoint: Endpoint::Settle, reply, payload, trace });
    }

    fn is_of_successor(&self, news: &Message) -> bool {
        let news = serde_json::from_slice(&news.payload);
        matches!(news, Ok(News::Leader { epoch, .. }) if epoch > self.epoch)
    }

    /// Ends the subscription, and publishes all settles again. Fails if the connection is closed.
    pub(crate) async fn pass_on(mut self) -> anyhow::Result<()> {
        for settles in self.settles.iter_mut() {
            settles.drain().await?;
        }
        while let Some(settle) = self.settles.next().await {
            self.keep(Some(settle));
        }
        while let Some(Inbound { reply, payload, trace, .. }) = self.kept.pop() {
            let reply = reply.and_then(Address::into_subject);
            send(&self.client, self.subject.clone(), reply, trace.map(|trace| trace.headers()), payload).await?;
        }
        round_trip(&self.client).await
    }
}

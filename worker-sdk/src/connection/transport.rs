//! The connection to NATS. It makes no decisions.

use crate::connection::link::Message;
use crate::connection::silence::{Silence, log_silence};
use crate::{Error, connection::token_question};
use async_nats::{Client, ConnectOptions, HeaderMap, Subject};
use bytes::Bytes;
use futures::stream::SelectAll;
use futures::{FutureExt, Stream, StreamExt};
use rampmeter_nats::inbox::{Inbox, InboxReply};
use rampmeter_nats::servers::Servers;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::Span;
use rampmeter_protocol::token::AccessToken;
use rampmeter_protocol::trace_context::{TRACEPARENT, TraceContexts};
use rampmeter_worker_session::{BatchNumber, Event, ResourceNumber};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc::WeakUnboundedSender;
use tokio::sync::oneshot;

/// Longest wait for space in the client's buffer. A longer one counts as a lost connection.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before a subscription that NATS refused is sent again.
const SEND_PAUSE: Duration = Duration::from_secs(1);

/// A connection with an inbox of its own. A reply's number is that of its batch.
pub(crate) struct Transport {
    client: Client,
    subjects: Subjects,
    inbox: Inbox,
    news: SelectAll<Pin<Box<dyn Stream<Item = Arrival> + Send + Sync>>>,
    resources: Vec<Targets>,
}

struct Targets {
    name: Name,
    permit: Subject,
    settle: Subject,
}

pub(crate) enum Arrival {
    Answer { batch: BatchNumber, payload: Bytes },
    NoResponders { batch: BatchNumber },
    News { resource: ResourceNumber, payload: Bytes },
}

impl Transport {
    pub(crate) async fn connect(
        options: ConnectOptions,
        servers: &Servers,
        subjects: Subjects,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let client = options.connect(servers.addresses().as_slice()).await?;
        let inbox = Inbox::open(&client).await?;
        Ok(Transport { client, subjects, inbox, news: SelectAll::new(), resources: Vec::new() })
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// Subscribes to the resource's events. The order of these calls numbers the resources.
    pub(crate) async fn open(&mut self, name: &Name) -> ResourceNumber {
        let resource = ResourceNumber(u32::try_from(self.resources.len()).expect("numbered by the link"));
        let (permit, settle) = (self.subjects.permit(name).into(), self.subjects.settle(name).into());
        self.resources.push(Targets { name: name.clone(), permit, settle });
        let subject = self.subjects.event(name);
        let client = self.client.clone();
        let (wanted, first) = (subject.clone(), bounded(self.client.subscribe(subject.clone())).await);
        if first.is_none() {
            tracing::warn!(resource = %name, "no subscription to the resource's events yet; trying again");
        }
        let news = async move {
            match first {
                Some(news) => news,
                None => until_taken(|| client.subscribe(wanted.clone())).await,
            }
        };
        let arrival = move |message| std::future::ready(news_arrival(resource, &subject, message));
        self.news.push(Box::pin(news.flatten_stream().filter_map(arrival)));
        resource
    }

    /// Sends requests, with `class` in the subject if given, and returns whether that succeeded.
    pub(crate) async fn ask(
        &self,
        resource: ResourceNumber,
        class: Option<&str>,
        batch: BatchNumber,
        (payload, traces): (Vec<u8>, &TraceContexts),
    ) -> bool {
        let Targets { name, permit, .. } = &self.resources[resource.0 as usize];
        let subject = class.map_or_else(|| permit.clone(), |class| self.subjects.permit_of_class(name, class).into());
        self.publish(subject, self.inbox.address().of(batch.0), payload, traces).await
    }

    /// Sends settles, whose receipt is confirmed, and returns whether that succeeded.
    pub(crate) async fn settle(
        &self,
        resource: ResourceNumber,
        batch: BatchNumber,
        (payload, traces): (Vec<u8>, &TraceContexts),
    ) -> bool {
        let subject = self.resources[resource.0 as usize].settle.clone();
        self.publish(subject, self.inbox.address().receipt_of(batch.0), payload, traces).await
    }

    pub(crate) async fn renew(&self, resource: ResourceNumber, batch: BatchNumber, payload: Vec<u8>) -> bool {
        let subject = self.resources[resource.0 as usize].settle.clone();
        self.publish(subject, self.inbox.address().of(batch.0), payload, &TraceContexts::default()).await
    }

    async fn publish(&self, subject: Subject, reply: Subject, payload: Vec<u8>, traces: &TraceContexts) -> bool {
        match traces.has_any() {
            true => {
                let headers = headers(traces);
                let sending = self.client.publish_with_reply_and_headers(subject, reply, headers, payload.into());
                bounded(sending).await.is_some()
            }
            false => bounded(self.client.publish_with_reply(subject, reply, payload.into())).await.is_some(),
        }
    }

    pub(crate) fn name(&self, resource: ResourceNumber) -> &Name {
        &self.resources[resource.0 as usize].name
    }

    /// Logs, in the background, that no scheduler of `resource` has answered.
    pub(crate) fn report_silence(&self, resource: ResourceNumber, silence: Span) {
        let silence = Silence { resource: self.name(resource).clone(), lasts: silence };
        tokio::spawn(log_silence(silence, self.client.clone(), self.subjects.resources()));
    }

    pub(crate) fn ask_token(&self, resource: Name, answer: oneshot::Sender<Result<AccessToken, Error>>) {
        let (client, subject) = (self.client.clone(), self.subjects.token(&resource));
        tokio::spawn(async move { answer.send(token_question::ask(&client, subject, &resource).await).ok() });
    }

    /// Waits until the server has received all published messages.
    pub(crate) async fn flush(&self) {
        bounded(self.client.flush()).await;
    }

    pub(crate) async fn next(&mut self) -> Arrival {
        tokio::select! {
            Some((number, reply)) = self.inbox.next() => arrival(BatchNumber(number), reply),
            Some(arrival) = self.news.next() => arrival,
            else => std::future::pending().await,
        }
    }

    /// Returns the next message if it is already here.
    pub(crate) fn try_next(&mut self) -> Option<Arrival> {
        self.next().now_or_never()
    }
}

fn headers(traces: &TraceContexts) -> HeaderMap {
    let mut headers = HeaderMap::new();
    traces.values().for_each(|value| headers.append(TRACEPARENT, value));
    headers
}

/// Retries after pauses until NATS accepts it.
async fn until_taken<T, E: std::fmt::Display, S: Future<Output = Result<T, E>>>(mut send: impl FnMut() -> S) -> T {
    loop {
        tokio::time::sleep(SEND_PAUSE).await;
        if let Some(taken) = bounded(send()).await {
            return taken;
        }
    }
}

async fn bounded<T, E: std::fmt::Display>(sending: impl Future<Output = Result<T, E>>) -> Option<T> {
    match tokio::time::timeout(SEND_TIMEOUT, sending).await {
        Ok(Ok(sent)) => return Some(sent),
        Ok(Err(error)) => tracing::warn!(%error, "NATS did not take a message"),
        Err(_) => tracing::warn!("NATS took no message for {SEND_TIMEOUT:?}"),
    }
    None
}

/// Reads an event. JetStream can deliver a stored message to any subscription; it keeps the subject
/// that it was stored under and requests an acknowledgement.
fn news_arrival(resource: ResourceNumber, subject: &str, message: async_nats::Message) -> Option<Arrival> {
    let is_event = *message.subject == *subject && message.reply.is_none();
    is_event.then_some(Arrival::News { resource, payload: message.payload })
}

fn arrival(batch: BatchNumber, reply: InboxReply) -> Arrival {
    match reply {
        InboxReply::Answer(payload) => Arrival::Answer { batch, payload },
        InboxReply::NoResponders => Arrival::NoResponders { batch },
    }
}

/// Reports changes of the connection to the driver, without keeping the driver alive.
pub(crate) fn watched(options: ConnectOptions, driver: WeakUnboundedSender<Message>) -> ConnectOptions {
    options.event_callback(move |event| {
        log(&event);
        if let (Some(message), Some(driver)) = (message(&event), driver.upgrade()) {
            driver.send(message).ok();
        }
        std::future::ready(())
    })
}

fn message(event: &async_nats::Event) -> Option<Message> {
    match event {
        async_nats::Event::Connected => Some(Message::Event(Event::Connected)),
        async_nats::Event::Disconnected => Some(Message::Event(Event::Disconnected)),
        async_nats::Event::Closed => Some(Message::Close { done: None }),
        async_nats::Event::LameDuckMode
        | async_nats::Event::Draining
        | async_nats::Event::SlowConsumer(_)
        | async_nats::Event::ServerError(_)
        | async_nats::Event::ClientError(_) => None,
    }
}

/// Logs an event of the connection. Client errors come with every attempt, several a second.
fn log(event: &async_nats::Event) {
    match event {
        async_nats::Event::Connected | async_nats::Event::LameDuckMode | async_nats::Event::Draining => {
            tracing::info!(%event, "connection to NATS");
        }
        async_nats::Event::ServerError(_) if event.to_string().to_lowercase().contains("subscription to \"_inbox") => {
            let remedy = "this user has other inboxes; name them with `ClientBuilder::inbox_prefix`";
            tracing::warn!(%event, "NATS does not permit what this client needs: {remedy}");
        }
        async_nats::Event::Disconnected | async_nats::Event::SlowConsumer(_) | async_nats::Event::ServerError(_) => {
            tracing::warn!(%event, "connection to NATS");
        }
        async_nats::Event::Closed | async_nats::Event::ClientError(_) => tracing::debug!(%event, "connection to NATS"),
    }
}

#[cfg(test)]
mod tests {
    use super::until_taken;
    use std::cell::Cell;

    #[tokio::test(start_paused = true)]
    async fn a_subscription_that_nats_does_not_take_is_sent_again() {
        let sent = Cell::new(0);
        let send = || {
            sent.set(sent.get() + 1);
            let answer = if sent.get() < 3 { Err("the buffer is full") } else { Ok("subscribed") };
            async move { answer }
        };
        assert_eq!(until_taken(send).await, "subscribed");
        assert_eq!(sent.get(), 3);
    }
}

//! A queue's own connection to NATS.

use crate::QueueError;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event, ServerError};
use rampmeter_nats::reconnect::reconnecting_soon;
use rampmeter_nats::servers::Servers;
use std::time::Duration;
use tokio::sync::watch;

/// How long to wait for an answer of the server before the message is sent again.
const ANSWER: Duration = Duration::from_secs(2);

/// The beginning of the server's message about a denied operation.
const VIOLATION: &str = "permissions violation";

/// A connection with a counter of its reconnects, on each of which pending requests were lost.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    pub(crate) reconnects: watch::Receiver<u64>,
    /// The operation that the server last denied. A request for it gets no answer, and times out.
    denial: watch::Receiver<Option<String>>,
}

impl Connection {
    pub(crate) async fn connect(options: ConnectOptions, url: &str) -> Result<Self, QueueError> {
        let (sender, reconnects) = watch::channel(0);
        let (denied, denial) = watch::channel(None);
        let options = reconnecting_soon(options).event_callback(move |event| {
            tracing::debug!(%event, "connection to NATS of a queue");
            if matches!(event, Event::Connected) {
                sender.send_modify(|count| *count += 1);
            }
            if let Event::ServerError(ServerError::Other(text)) = event
                && text.to_lowercase().starts_with(VIOLATION)
            {
                denied.send_replace(Some(text));
            }
            std::future::ready(())
        });
        let servers: Servers = url.parse().map_err(QueueError::invalid)?;
        let connecting =
            servers.authenticated(options).map_err(QueueError::invalid)?.connect(servers.addresses()).await;
        let client = connecting.map_err(|error| QueueError::connect(&servers, error))?;
        let jetstream: Context = ContextBuilder::new().timeout(ANSWER).ack_timeout(ANSWER).build(client.clone());
        Ok(Connection { client, jetstream, reconnects, denial })
    }

    /// Adds what the server denied to an error.
    pub(crate) fn explained(&self, error: QueueError) -> QueueError {
        match &*self.denial.borrow() {
            Some(denial) => error.denied(denial),
            None => error,
        }
    }

    /// Acknowledges a message with `kind`, and returns whether the server confirmed that.
    pub(crate) async fn acknowledge(&self, reply: &str, kind: jetstream::AckKind) -> bool {
        let request = async_nats::Request::new().payload(kind.into()).timeout(Some(ANSWER));
        let confirmed = self.client.send_request(reply.to_owned(), request).await;
        confirmed.inspect_err(|error| tracing::debug!(%error, "JetStream did not confirm")).is_ok()
    }
}

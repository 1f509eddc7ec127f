//! Pulls messages from a consumer, at most as many as wanted.

use crate::store::connection::Connection;
use async_nats::Message;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::BatchConfig;
use futures::StreamExt;
use std::time::Duration;

/// How long the server keeps a request for messages.
const EXPIRES: Duration = Duration::from_secs(30);
/// How often the server confirms that it still has the request.
const HEARTBEAT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(250);

/// Waits for one to `most` messages. Repeats the request if a server forgets it by restarting or losing the lead.
pub(crate) async fn next(connection: &Connection, consumer: &PullConsumer, most: usize) -> Vec<Message> {
    let mut reconnects = connection.reconnects.clone();
    loop {
        reconnects.mark_unchanged();
        let messages = tokio::select! {
            messages = request(connection, consumer, most) => messages,
            Ok(()) = reconnects.changed() => continue,
        };
        match messages {
            Ok(messages) if messages.is_empty() => {}
            Ok(messages) => return messages,
            Err(error) => {
                tracing::debug!(%error, "no messages from JetStream");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn request(
    connection: &Connection,
    consumer: &PullConsumer,
    most: usize,
) -> Result<Vec<Message>, async_nats::Error> {
    let inbox = connection.client.new_inbox();
    let mut answers = connection.client.subscribe(inbox.clone()).await?;
    let batch =
        BatchConfig { batch: most, expires: Some(EXPIRES), idle_heartbeat: HEARTBEAT, ..BatchConfig::default() };
    consumer.request_batch(batch, inbox.into()).await?;
    let mut messages = Vec::new();
    loop {
        // Messages that are here do not wait for messages that might come.
        let patience = if messages.is_empty() { 2 * HEARTBEAT } else { Duration::ZERO };
        match tokio::time::timeout(patience, answers.next()).await {
            Ok(Some(message)) => match message.status.map(|status| status.as_u16()) {
                None => messages.push(message),
                Some(100) => {}
                // The request has expired without a message.
                Some(404 | 408) => return Ok(messages),
                Some(status) if messages.is_empty() => {
                    return Err(format!("{status} {}", message.description.unwrap_or_default()).into());
                }
                Some(_) => return Ok(messages),
            },
            Ok(None) | Err(_) if messages.is_empty() => return Err("the server has forgotten the request".into()),
            Ok(None) | Err(_) => return Ok(messages),
        }
        if messages.len() == most {
            return Ok(messages);
        }
    }
}

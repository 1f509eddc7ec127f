//! Opens and creates the streams and consumers of a queue.
//!
//! Existing ones must be configured as expected, because another party could have them copy jobs anywhere.

use crate::QueueError;
use crate::store::connection::Connection;
use crate::store::difference::differences;
use crate::store::layout::{BATCHES, FILLED_IN, FREE_OF_CONSUMERS, FREE_OF_STREAMS};
use crate::store::retry::retry_for_a_while;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{self, Consumer, IntoConsumerConfig, PullConsumer, pull};
use async_nats::jetstream::context::{ConsumerInfoError, ConsumerInfoErrorKind, GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::{self, Stream};

/// Opens the stream with the name of `expected`, and checks its settings.
pub(crate) async fn existing_stream(
    connection: &Connection,
    queue: &str,
    expected: &stream::Config,
) -> Result<Stream, QueueError> {
    let found = retry_for_a_while(|| connection.jetstream.get_stream(&expected.name)).await;
    let found = found.map_err(|error| without_stream(queue, error))?;
    checked_stream(found, expected, FREE_OF_STREAMS)
}

/// Opens the stream, and creates it if needed. A stream of an earlier build is changed to accept batches.
pub(crate) async fn made_stream(connection: &Connection, wanted: &stream::Config) -> Result<Stream, QueueError> {
    let failed = |error| QueueError::store("making a stream", error);
    let made = retry_for_a_while(|| connection.jetstream.get_or_create_stream(wanted)).await.map_err(failed)?;
    let mut made = checked_stream(made, wanted, &[BATCHES])?;
    if made.cached_info().config.allow_atomic_publish != wanted.allow_atomic_publish {
        connection.jetstream.update_stream(wanted).await.map_err(failed)?;
        made.info().await.map_err(|error| QueueError::store("looking at a stream", error))?;
    }
    Ok(made)
}

/// Opens the consumer with the name of `expected`, and checks its settings.
pub(crate) async fn existing_consumer(
    connection: &Connection,
    stream: &Stream,
    expected: pull::Config,
) -> Result<PullConsumer, QueueError> {
    let name = name_of(&expected);
    let found = retry_for_a_while(|| stream.consumer_info(&name)).await;
    let info = found.map_err(|error| without_consumer(&name, error))?;
    check_consumer(&info, &expected, FREE_OF_CONSUMERS)?;
    Ok(Consumer::new(expected, info, connection.jetstream.clone()))
}

pub(crate) async fn make_consumer(stream: &Stream, wanted: &pull::Config) -> Result<(), QueueError> {
    let name = name_of(wanted);
    let made = retry_for_a_while(|| stream.get_or_create_consumer(&name, wanted.clone())).await;
    let made = made.map_err(|error| QueueError::store("making a consumer", error))?;
    check_consumer(made.cached_info(), wanted, FILLED_IN)
}

fn name_of(config: &pull::Config) -> String {
    config.name.clone().unwrap_or_default()
}

fn checked_stream(found: Stream, expected: &stream::Config, free: &[&str]) -> Result<Stream, QueueError> {
    let differences = differences(&found.cached_info().config, expected, free);
    unless_different("stream", &expected.name, &differences).map(|()| found)
}

fn check_consumer(info: &consumer::Info, expected: &pull::Config, free: &[&str]) -> Result<(), QueueError> {
    let differences = differences(&info.config, &expected.into_consumer_config(), free);
    unless_different("consumer", &name_of(expected), &differences)
}

fn unless_different(what: &str, name: &str, differences: &[String]) -> Result<(), QueueError> {
    if differences.is_empty() { Ok(()) } else { Err(QueueError::differs(what, name, differences)) }
}

fn without_stream(queue: &str, error: GetStreamError) -> QueueError {
    let is_missing = matches!(error.kind(), GetStreamErrorKind::JetStream(refusal) if refusal.error_code() == ErrorCode::STREAM_NOT_FOUND);
    match is_missing {
        true => QueueError::missing(format!(
            "there is no queue `{queue}`; an operator makes it: rampmeter jobs init {queue}"
        )),
        false => QueueError::store("looking for a stream", error),
    }
}

fn without_consumer(name: &str, error: ConsumerInfoError) -> QueueError {
    match error.kind() == ConsumerInfoErrorKind::NotFound {
        true => QueueError::missing(format!(
            "the queue has no consumer `{name}`; an operator makes it: rampmeter jobs init, with each --class of jobs"
        )),
        false => QueueError::store("looking for a consumer", error),
    }
}

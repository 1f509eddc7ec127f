//! Finds or creates a KV bucket. Each operation has a timeout.

use async_nats::jetstream::context::{
    AccountError, AccountErrorKind, CreateKeyValueError, CreateStreamError, CreateStreamErrorKind, GetStreamErrorKind,
};
use async_nats::jetstream::kv::{self, UpdateErrorKind};
use async_nats::jetstream::{Context, ErrorCode};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use std::error::Error;
use std::time::Duration;

/// Timeout of one operation. During an election of the stream's leader, operations fail and are retried.
const OPERATION: Duration = Duration::from_secs(2);
/// How long to wait for a bucket: the nodes of a cluster take seconds to connect and elect a leader.
const WAIT_FOR_SERVERS: Span = Span::from_secs(30);
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another scheduler has written the record, and leads the resource now.
    #[error("another scheduler has taken the resource over")]
    Superseded,
    /// A value of this many bytes is longer than the server accepts.
    #[error("a value of {0} bytes is larger than `max_payload` of the NATS server")]
    TooLarge(usize),
    /// The store can't be reached, or refuses the operation.
    #[error("the KV store does not answer: {0}")]
    Unavailable(String),
}

/// Why there is no bucket.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The server has no `JetStream`, in general or for this account.
    #[error("`JetStream` is off at the NATS server; start nats-server with `-js`, or enable it for this account")]
    Off,
    /// The configuration asks for more replicas than a single server has.
    #[error("a NATS server alone keeps no {0} replicas; set `nats.replicas = 1`, or run a cluster of nats-servers")]
    Alone(usize),
    /// The store does not answer now, and may later.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Opens the bucket of this configuration, and creates it if needed. Waits for servers that are not ready.
pub(super) async fn wait_for(jetstream: &Context, config: &kv::Config) -> Result<kv::Store, OpenError> {
    let clock = Clock::start();
    loop {
        match open(jetstream, config).await {
            Err(OpenError::Store(error)) if clock.now().since(Clock::START) < WAIT_FOR_SERVERS => {
                tracing::warn!(bucket = config.bucket, %error, "waiting for JetStream");
            }
            done => return done,
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Opens the bucket of this configuration, and creates it if needed.
pub(super) async fn open(jetstream: &Context, config: &kv::Config) -> Result<kv::Store, OpenError> {
    if let Ok(bucket) = within(jetstream.get_key_value(&config.bucket)).await {
        return Ok(bucket);
    }
    match tokio::time::timeout(OPERATION, jetstream.create_key_value(config.clone())).await {
        Ok(made) => made.map_err(|error| explained(&error, config)),
        Err(elapsed) => Err(unavailable(elapsed).into()),
    }
}

pub(super) async fn existing(jetstream: &Context, name: &str) -> Result<Option<kv::Store>, StoreError> {
    if is_missing(jetstream, name).await {
        return Ok(None);
    }
    within(jetstream.get_key_value(name)).await.map(Some)
}

/// Returns whether the server reports the bucket as missing, which it does not during an election.
pub(super) async fn is_missing(jetstream: &Context, name: &str) -> bool {
    match tokio::time::timeout(OPERATION, jetstream.get_stream(format!("KV_{name}"))).await {
        Ok(Err(error)) => match error.kind() {
            GetStreamErrorKind::JetStream(error) => error.error_code() == ErrorCode::STREAM_NOT_FOUND,
            GetStreamErrorKind::EmptyName | GetStreamErrorKind::Request | GetStreamErrorKind::InvalidStreamName => {
                false
            }
        },
        Ok(Ok(_)) | Err(_) => false,
    }
}

fn explained(error: &CreateKeyValueError, config: &kv::Config) -> OpenError {
    match jetstream_error_code(error) {
        Some(ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT) => OpenError::Off,
        Some(ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED) => OpenError::Alone(config.num_replicas),
        Some(_) | None => unavailable(error).into(),
    }
}

/// Returns the error code of `JetStream`'s refusal. A `JetStream` without any responder counts as off.
fn jetstream_error_code(error: &CreateKeyValueError) -> Option<ErrorCode> {
    let source = error.source()?;
    if let Some(account) = source.downcast_ref::<AccountError>() {
        return match account.kind() {
            AccountErrorKind::JetStream(error) => Some(error.error_code()),
            AccountErrorKind::JetStreamUnavailable => Some(ErrorCode::JETSTREAM_NOT_ENABLED),
            AccountErrorKind::TimedOut | AccountErrorKind::Other => None,
        };
    }
    match source.downcast_ref::<CreateStreamError>()?.kind() {
        CreateStreamErrorKind::JetStream(error) => Some(error.error_code()),
        CreateStreamErrorKind::EmptyStreamName
        | CreateStreamErrorKind::InvalidStreamName
        | CreateStreamErrorKind::DomainAndExternalSet
        | CreateStreamErrorKind::JetStreamUnavailable
        | CreateStreamErrorKind::TimedOut
        | CreateStreamErrorKind::Response
        | CreateStreamErrorKind::NotFound
        | CreateStreamErrorKind::ResponseParse => None,
    }
}

/// Writes a value and returns its revision, or [`StoreError::Superseded`] if the stored one is not `revision`.
pub(super) async fn update(bucket: &kv::Store, key: &str, value: Vec<u8>, revision: u64) -> Result<u64, StoreError> {
    match tokio::time::timeout(OPERATION, bucket.update(key, value.into(), revision)).await {
        Ok(Err(error)) if error.kind() == UpdateErrorKind::WrongLastRevision => Err(StoreError::Superseded),
        Ok(written) => written.map_err(unavailable),
        Err(elapsed) => Err(unavailable(elapsed)),
    }
}

pub(super) async fn within<T, E: std::fmt::Display>(
    operation: impl Future<Output = Result<T, E>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(OPERATION, operation).await {
        Ok(done) => done.map_err(unavailable),
        Err(elapsed) => Err(unavailable(elapsed)),
    }
}

pub(super) fn unavailable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

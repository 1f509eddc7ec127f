//! Repeats operations of JetStream, since a server needs a moment after a start or the loss of its leader.

use async_nats::jetstream::Error as Refusal;
use async_nats::jetstream::context::{
    ConsumerInfoError, ConsumerInfoErrorKind, CreateStreamError, CreateStreamErrorKind, GetStreamError,
    GetStreamErrorKind, PublishError, PublishErrorKind, RequestError,
};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use rampmeter_nats::entropy::entropy;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Span;
use std::fmt::Display;
use std::ops::Range;
use std::time::Duration;

/// How long a caller waits at most. After the loss of a node, a cluster may take eight seconds to elect a leader.
const OPERATION_TIMEOUT: Span = Span::from_secs(15);
/// The bounds of the pause before a repetition.
const PAUSES_MS: Range<u64> = 20..500;
/// Errors from this status on are the server's own, and may be temporary.
const SERVERS_OWN_FAULT: usize = 500;

/// An error that may be temporary, so that a repetition is useful.
pub(crate) trait Transient {
    fn is_transient(&self) -> bool;
}

impl Transient for PublishError {
    fn is_transient(&self) -> bool {
        self.kind() != PublishErrorKind::MaxPayloadExceeded
    }
}

impl Transient for RequestError {
    fn is_transient(&self) -> bool {
        true
    }
}

impl Transient for CreateStreamError {
    fn is_transient(&self) -> bool {
        !matches!(self.kind(), CreateStreamErrorKind::JetStream(refusal) if is_final(&refusal))
    }
}

impl Transient for GetStreamError {
    fn is_transient(&self) -> bool {
        !matches!(self.kind(), GetStreamErrorKind::JetStream(refusal) if is_final(&refusal))
    }
}

impl Transient for ConsumerInfoError {
    fn is_transient(&self) -> bool {
        let is_missing = matches!(self.kind(), ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound);
        !is_missing && !matches!(self.kind(), ConsumerInfoErrorKind::JetStream(refusal) if is_final(&refusal))
    }
}

impl Transient for ConsumerError {
    fn is_transient(&self) -> bool {
        !matches!(self.kind(), ConsumerErrorKind::JetStream(refusal) if is_final(&refusal))
    }
}

/// Returns whether the server refuses for good. Its own errors may be temporary.
fn is_final(refusal: &Refusal) -> bool {
    refusal.code() < SERVERS_OWN_FAULT
}

/// Repeats `act` until it succeeds, fails for good, or has failed for [`OPERATION_TIMEOUT`].
pub(crate) async fn retry_for_a_while<T, E, Fut>(mut act: impl FnMut() -> Fut) -> Result<T, E>
where
    E: Transient + Display,
    Fut: Future<Output = Result<T, E>>,
{
    let (clock, mut pauses) = (Clock::start(), Pauses::default());
    loop {
        match act().await {
            Err(error) if error.is_transient() && clock.now().since(Clock::START) < OPERATION_TIMEOUT => {
                tracing::debug!(%error, "the JetStream operation failed; trying again");
            }
            done => return done,
        }
        pauses.wait().await;
    }
}

/// Repeats `act` until the server confirms the result, however long that takes.
pub(crate) async fn retry_until_done<T, E, Fut>(what: &str, mut act: impl FnMut() -> Fut) -> T
where
    E: Display,
    Fut: Future<Output = Result<T, E>>,
{
    let mut pauses = Pauses::default();
    loop {
        match act().await {
            Ok(done) => return done,
            Err(error) => tracing::warn!(%error, "{what}: the JetStream operation failed; trying again"),
        }
        pauses.wait().await;
    }
}

/// Pauses that double, randomised.
struct Pauses {
    next_ms: u64,
}

impl Default for Pauses {
    fn default() -> Self {
        Pauses { next_ms: PAUSES_MS.start }
    }
}

impl Pauses {
    async fn wait(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.next_ms + entropy() % self.next_ms)).await;
        self.next_ms = (2 * self.next_ms).min(PAUSES_MS.end);
    }
}

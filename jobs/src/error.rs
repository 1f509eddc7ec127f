//! Why a queue operation failed.

use rampmeter_nats::servers::Servers;
use rampmeter_nats::tls_fault::tls_fault;
use std::error::Error as StdError;

/// The error of a queue operation: [`QueueError::kind`] for programs, the text for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct QueueError {
    kind: QueueErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of a [`QueueError`], to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueErrorKind {
    /// The caller passed an invalid argument.
    InvalidArgument,
    /// There is no connection to NATS, or the server refused it.
    Connect,
    /// There is no such queue, or it has no consumer for a class. An operator creates both.
    Missing,
    /// A stream or a consumer of the queue is configured differently. The text lists the differences.
    Differs,
    /// JetStream did not answer, or refused. A published job may still have arrived: repeat it under its id.
    Store,
}

impl QueueError {
    /// Returns the kind, to match on.
    #[must_use]
    pub fn kind(&self) -> QueueErrorKind {
        self.kind
    }

    pub(crate) fn invalid(message: impl ToString) -> Self {
        QueueError { kind: QueueErrorKind::InvalidArgument, message: message.to_string(), source: None }
    }

    pub(crate) fn differs(what: &str, name: &str, differences: &[String]) -> Self {
        let message = format!("the {what} `{name}` has another configuration: {}", differences.join("; "));
        QueueError { kind: QueueErrorKind::Differs, message, source: None }
    }

    pub(crate) fn missing(message: String) -> Self {
        QueueError { kind: QueueErrorKind::Missing, message, source: None }
    }

    pub(crate) fn without_class(queue: &str, class: &str) -> Self {
        QueueError::missing(format!(
            "the queue `{queue}` has no class `{class}`; an operator adds it: rampmeter jobs init {queue} --class {class}"
        ))
    }

    /// Adds that the server did not answer because it denied the request.
    pub(crate) fn denied(self, denial: &str) -> Self {
        if self.kind != QueueErrorKind::Store {
            return self;
        }
        let message = format!("{}; the NATS server does not permit it: {denial}", self.message);
        QueueError { message, ..self }
    }

    pub(crate) fn connect(servers: &Servers, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source = source.into();
        let reason = tls_fault(&*source).unwrap_or_else(|| source.to_string());
        let message = format!("no connection to NATS at {servers}: {reason}");
        QueueError { kind: QueueErrorKind::Connect, message, source: Some(source) }
    }

    pub(crate) fn store(what: &str, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source = source.into();
        QueueError { kind: QueueErrorKind::Store, message: format!("{what}: {source}"), source: Some(source) }
    }
}

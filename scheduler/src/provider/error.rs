//! What can go wrong when a provider is asked.

use std::fmt;

/// Why a question has no answer, or none that is believed.
///
/// Its text goes to logs, metrics, status and people. It is made of our own words, numbers and the
/// system's errors: nothing that was received is repeated, since whoever answers may send a secret
/// back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{question}: {reason}")]
pub struct ProviderError {
    /// What was asked.
    pub question: Question,
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What happened.
    pub reason: String,
}

impl ProviderError {
    /// A failure.
    pub(super) fn new(question: Question, kind: FailureKind, reason: impl Into<String>) -> Self {
        ProviderError { question, kind, reason: reason.into() }
    }
}

/// What a provider is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// For an access token.
    Token,
    /// For the limits.
    Contract,
    /// For the levels.
    Levels,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Question::Token => "access token",
            Question::Contract => "contract",
            Question::Levels => "token counts",
        })
    }
}

/// A kind of failure, as metrics have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Client id or secret can't be read here.
    Credentials,
    /// There is no connection.
    Unreachable,
    /// There was no answer in time.
    Timeout,
    /// 400, 401 or 403: client id, secret or token are not accepted.
    Unauthorized,
    /// 404 or 410: the endpoint is gone.
    Missing,
    /// 429: asked too often.
    RateLimited,
    /// Any other status that is no success.
    Status,
    /// The answer is not of the documented form, or too long.
    Malformed,
    /// The answer is of the form, and makes no sense.
    Implausible,
}

impl FailureKind {
    /// All of them.
    pub const ALL: [FailureKind; 9] = [
        FailureKind::Credentials,
        FailureKind::Unreachable,
        FailureKind::Timeout,
        FailureKind::Unauthorized,
        FailureKind::Missing,
        FailureKind::RateLimited,
        FailureKind::Status,
        FailureKind::Malformed,
        FailureKind::Implausible,
    ];

    /// As the label of a metric.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            FailureKind::Credentials => "credentials",
            FailureKind::Unreachable => "unreachable",
            FailureKind::Timeout => "timeout",
            FailureKind::Unauthorized => "unauthorized",
            FailureKind::Missing => "missing",
            FailureKind::RateLimited => "rate_limited",
            FailureKind::Status => "status",
            FailureKind::Malformed => "malformed",
            FailureKind::Implausible => "implausible",
        }
    }
}

//! Failures of questions to a provider.

use std::fmt;

/// Why a question has no plausible answer. The text, for logs, metrics and status, has the scheduler's own words,
/// numbers and the system's errors, and repeats nothing received, which may contain a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{question}: {reason}")]
pub struct ProviderError {
    /// The question.
    pub question: Question,
    /// The kind of failure.
    pub kind: FailureKind,
    /// What happened.
    pub reason: String,
}

impl ProviderError {
    pub(super) fn new(question: Question, kind: FailureKind, reason: impl Into<String>) -> Self {
        ProviderError { question, kind, reason: reason.into() }
    }
}

/// A question to a provider or its token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Asks for an access token.
    Token,
    /// Asks for the limits.
    Contract,
    /// Asks for the levels.
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

rampmeter_protocol::named! {
    /// A kind of failure, as metrics count it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FailureKind {
        /// The client id or secret can't be read on this machine.
        Credentials = "credentials",
        /// No connection was made.
        Unreachable = "unreachable",
        /// There was no answer in time.
        Timeout = "timeout",
        /// 400, 401 or 403: the client id, secret or token is not accepted.
        Unauthorized = "unauthorized",
        /// 404 or 410: the endpoint is gone.
        Missing = "missing",
        /// 429: the scheduler asks too often.
        RateLimited = "rate_limited",
        /// Any other status that is no success.
        Status = "status",
        /// The answer is not of the documented form, or too long.
        Malformed = "malformed",
        /// The answer has the documented form, but makes no sense.
        Implausible = "implausible",
    }
}

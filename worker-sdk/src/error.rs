//! Reasons why there is no permit.

pub use rampmeter_protocol::code::{Code, Remedy};

use rampmeter_nats::key_file::KeyFileError;
use rampmeter_nats::servers::Servers;
use rampmeter_nats::tls_fault::tls_fault;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_worker_session::{Denial, PatienceError, SafeRateError};
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// A failure: [`Error::kind`] for programs, the text for people.
///
/// ```
/// use rampmeter_worker_sdk::error::{Code, ErrorKind};
/// use rampmeter_worker_sdk::Error;
///
/// fn advice(error: &Error) -> String {
///     match (error.kind(), error.retry_after()) {
///         (ErrorKind::Refused(Code::NeverFits), _) => "split the call".to_owned(),
///         (_, Some(pause)) => format!("come back in {pause:?}"),
///         _ => error.to_string(),
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    retry_after: Option<Duration>,
    limited_by: Option<Box<str>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of an [`Error`], to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The scheduler refused the request.
    Refused(Code),
    /// The deadline passed before the permit's start.
    TimedOut,
    /// No scheduler of the resource answers, and the client's [`Unreachable`](crate::policy::Unreachable) policy
    /// fails such requests or has a safe rate that permits no call yet.
    Unreachable,
    /// The client has [too many](crate::client::ClientBuilder::max_asks) waiting requests.
    TooManyAsks,
    /// The caller passed an invalid argument.
    InvalidArgument,
    /// There is no connection to NATS, or the server refused it.
    Connect,
    /// The client was closed, or its runtime has ended.
    Closed,
}

/// The error of [`Resource::run`](crate::Resource::run).
#[derive(Debug, thiserror::Error)]
pub enum RunError<E> {
    /// There was no permit. The call was not made, or got a 429 and may not be repeated.
    #[error(transparent)]
    Permit(#[from] Error),
    /// The call failed. Its permit was settled as used.
    #[error(transparent)]
    Call(E),
}

impl Error {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns when to ask again; `None` if that is useless or unknown.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns the limit that caused the error, if the scheduler stated one.
    #[must_use]
    pub fn limited_by(&self) -> Option<&str> {
        self.0.limited_by.as_deref()
    }

    pub(crate) fn invalid(message: impl ToString) -> Self {
        Error::new(ErrorKind::InvalidArgument, message.to_string())
    }

    pub(crate) fn closed() -> Self {
        Error::new(ErrorKind::Closed, "the client is closed; connect a new one")
    }

    pub(crate) fn connect(servers: &Servers, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source = source.into();
        let reason = tls_fault(&*source).unwrap_or_else(|| source.to_string());
        let mut error = Error::new(ErrorKind::Connect, format!("no connection to NATS at {servers}: {reason}"));
        error.0.source = Some(source);
        error
    }

    pub(crate) fn denied(resource: &Name, why: Denial) -> Self {
        let (kind, message, retry_after, limited_by) = match why {
            Denial::Closed => return Error::closed(),
            Denial::TooManyAsks { bound } => {
                let text = format!("{bound} requests of this client wait for permits, which is its bound (`max_asks`)");
                (ErrorKind::TooManyAsks, text, None, None)
            }
            Denial::TimedOut { waited, limited_by, answered } => {
                (ErrorKind::TimedOut, late(resource, waited, limited_by.as_deref(), answered), None, limited_by)
            }
            Denial::Unreachable { silence, retry_after } => {
                let text = format!("no scheduler of {resource} has answered for {silence}; is one running?");
                (ErrorKind::Unreachable, text, Some(retry_after.duration()), None)
            }
            Denial::Refused(refused) => {
                let text = format!("{resource} refused the permit ({}): {}", refused.code.as_str(), refused.message);
                let limited_by = refused.limited_by.as_deref().map(Box::from);
                (ErrorKind::Refused(refused.code), text, refused.retry_after().map(Span::duration), limited_by)
            }
        };
        Error(Box::new(Inner { kind, message, retry_after, limited_by, source: None }))
    }

    pub(crate) fn no_token(resource: &Name, why: &str) -> Self {
        Error::new(ErrorKind::Unreachable, format!("no access token of {resource}: {why}"))
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), retry_after: None, limited_by: None, source: None }))
    }
}

fn late(resource: &Name, waited: Span, limited_by: Option<&str>, answered: bool) -> String {
    match (answered, limited_by) {
        (false, _) => format!("no scheduler of {resource} answered within {waited}; is one running?"),
        (true, None) => format!("no permit of {resource} within {waited}"),
        (true, Some(limit)) => format!("no permit of {resource} within {waited}: held by limit {limit}"),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<KeyFileError> for Error {
    fn from(error: KeyFileError) -> Self {
        let why = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        Error::invalid(format!("{error}{why}"))
    }
}

impl From<PatienceError> for Error {
    fn from(error: PatienceError) -> Self {
        Error::invalid(error)
    }
}

impl From<SafeRateError> for Error {
    fn from(error: SafeRateError) -> Self {
        Error::invalid(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::answer::Refused;

    fn check(why: Denial, kind: ErrorKind, text: &str) {
        let error = Error::denied(&Name::new("hub").unwrap(), why);
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
    }

    #[test]
    fn errors_say_what_would_be_right() {
        let waited = Span::from_secs(2);
        let timed_out = |answered, limited_by: Option<&str>| Denial::TimedOut {
            waited,
            limited_by: limited_by.map(Box::from),
            answered,
        };
        let refused = Denial::Refused(Refused::new(Code::NeverFits, "at most 300"));
        check(timed_out(false, None), ErrorKind::TimedOut, "no scheduler of hub answered within 2s; is one running?");
        check(timed_out(true, Some("pu")), ErrorKind::TimedOut, "no permit of hub within 2s: held by limit pu");
        check(refused, ErrorKind::Refused(Code::NeverFits), "hub refused the permit (never_fits): at most 300");
        let unreachable = Denial::Unreachable { silence: waited, retry_after: waited };
        check(unreachable, ErrorKind::Unreachable, "no scheduler of hub has answered for 2s; is one running?");
        check(Denial::Closed, ErrorKind::Closed, "the client is closed; connect a new one");
    }

    #[test]
    fn the_cause_of_a_failed_call_is_told() {
        #[derive(Debug, thiserror::Error)]
        #[error("no answer")]
        struct Failed(#[source] std::io::Error);
        let error = RunError::Call(Failed(std::io::Error::other("reset")));
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!((error.to_string().as_str(), cause.as_deref()), ("no answer", Some("reset")));
    }
}

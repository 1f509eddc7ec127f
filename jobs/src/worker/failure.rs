//! Failed attempts at jobs.

use std::fmt;
use std::time::Duration;

/// A failed attempt, and whether another can help. `?` turns every error into a failure that is retried.
///
/// ```
/// use rampmeter_jobs::Failure;
/// let failure: Failure = std::io::Error::other("connection reset").into();
/// assert!(!failure.is_final());
/// assert!(Failure::for_good("there is no such user").is_final());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    reason: String,
    is_final: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    /// Creates a failure after which another attempt may succeed.
    #[must_use]
    pub fn for_now(reason: impl Into<String>) -> Self {
        Failure { reason: reason.into(), is_final: false, retry_after: None }
    }

    /// Creates a failure after which no attempt can succeed: the job goes to the dead letters at once.
    #[must_use]
    pub fn for_good(reason: impl Into<String>) -> Self {
        Failure { reason: reason.into(), is_final: true, retry_after: None }
    }

    /// Sets the pause before the next attempt, which counts, in place of [backoff](crate::WorkerBuilder::backoff).
    #[must_use]
    pub fn retry_after(self, time: Duration) -> Self {
        Failure { retry_after: Some(time), ..self }
    }

    pub(crate) fn named_pause(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns whether another attempt is useless.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.is_final
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::for_now(error.to_string())
    }
}

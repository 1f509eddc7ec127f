//! How an attempt at a job fails.

use std::fmt;

/// Why an attempt failed, and whether another attempt can help.
///
/// Every error converts into a failure that is tried again, so that `?` does the usual thing.
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
}

impl Failure {
    /// Another attempt may succeed.
    #[must_use]
    pub fn for_now(reason: impl Into<String>) -> Self {
        Failure { reason: reason.into(), is_final: false }
    }

    /// No attempt can succeed: the job goes to the dead letters at once.
    #[must_use]
    pub fn for_good(reason: impl Into<String>) -> Self {
        Failure { reason: reason.into(), is_final: true }
    }

    /// Whether another attempt is useless.
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

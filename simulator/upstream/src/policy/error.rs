//! Errors of invalid policies.

use std::error::Error;

/// Why a text or values are not a valid [`Policy`](crate::Policy), for people.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct PolicyError {
    reason: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl PolicyError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), source: None }
    }

    /// Wraps the error of another parser about a part of a text.
    pub(crate) fn caused_by(source: impl Error + Send + Sync + 'static, reason: String) -> Self {
        Self { reason, source: Some(Box::new(source)) }
    }
}

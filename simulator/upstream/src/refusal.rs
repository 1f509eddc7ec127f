//! How a limit rejects calls.

use crate::{Rejection, RetryAfter, parsed::some_parsed, policy::text::read_duration};
use serde::{Deserialize, Deserializer, de::Error};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// How `Retry-After` states the wait; by default as in the dialect.
    #[serde(deserialize_with = "some_parsed")]
    pub(crate) retry_after: Option<RetryAfter>,
    /// The least wait stated. Above zero it also stands for an unknown wait.
    #[serde(deserialize_with = "wait")]
    pub(crate) at_least: Duration,
}

impl Refusal {
    /// Returns the wait to state; `None` if it is unknown or returning is useless.
    pub(crate) fn wait(self, rejection: Rejection) -> Option<Duration> {
        match rejection {
            Rejection::RetryAfter(wait) => Some(wait.max(self.at_least)),
            Rejection::TooManyInFlight => Some(self.at_least).filter(|wait| *wait > Duration::ZERO),
            Rejection::Never => None,
        }
    }
}

impl Default for Refusal {
    fn default() -> Self {
        Self { status: 429, retry_after: None, at_least: Duration::ZERO }
    }
}

/// Parses a duration of a fixed length.
fn wait<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    read_duration(&text).and_then(Duration::try_from).map_err(D::Error::custom)
}

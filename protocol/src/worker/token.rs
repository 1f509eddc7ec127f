//! The upstream's access token, for workers that may request it.

use crate::answer::{Answer, Refused};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The answer to a request for the access token. Its `Debug` output hides the token.
///
/// ```
/// use rampmeter_protocol::token::AccessToken;
/// let json = r#"{"status":"token","access_token":"e30.secret","valid_ms":540000.0}"#;
/// let token: AccessToken = serde_json::from_str(json).unwrap();
/// assert_eq!(token.secret(), "e30.secret");
/// assert!(!format!("{token:?}").contains("secret"));
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct AccessToken {
    status: TokenStatus,
    access_token: String,
    /// How long the token may be used after the answer.
    pub valid_ms: f64,
}

/// The field that distinguishes this answer from a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TokenStatus {
    Token,
}

impl AccessToken {
    /// Creates a token that may be used for `valid_ms` milliseconds.
    #[must_use]
    pub fn new(secret: &str, valid_ms: f64) -> Self {
        AccessToken { status: TokenStatus::Token, access_token: secret.to_owned(), valid_ms }
    }

    /// Parses an answer.
    ///
    /// # Errors
    /// The refusal, or `None` if the answer does not follow the protocol.
    pub fn parse(payload: &[u8]) -> Result<Self, Option<Refused<'_>>> {
        serde_json::from_slice(payload).map_err(|_| match serde_json::from_slice(payload).ok()? {
            Answer::Refused(refused) => Some(refused),
            Answer::Granted(_) | Answer::Queued(_) | Answer::Settled { .. } => None,
        })
    }

    /// Returns the token itself.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.access_token
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessToken").field("valid_ms", &self.valid_ms).finish_non_exhaustive()
    }
}

//! The explanation of why requests wait.

pub use crate::explained::{Explained, State};

use crate::epoch::Epoch;
use crate::id::PermitId;
use crate::incoming::{Incoming, Invalid};
use crate::name::Name;
use crate::status::LimitStatus;
use serde::{Deserialize, Serialize};

/// A question on `rampmeter.explain.<resource>`. An empty payload asks about all waiting requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Question {
    /// The request that the question is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<PermitId>,
    /// Restricts the answer to this class; not allowed beside an id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Name>,
    /// Restricts the answer to this client, if the resource shares by a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Restricts the answer to requests that this limit delays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Name>,
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The resource whose requests are explained.
    pub resource: Name,
    /// The epoch of the leader that answers.
    pub epoch: Epoch,
    /// The limits as they are now.
    pub limits: Vec<LimitStatus>,
    /// The request that the question was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Explained>,
    /// Requests ahead of that request, in its class's queue or for the same key. Without an id, all waiting requests
    /// that match; with a client or a limit, only the first thousand of each class are searched.
    pub waiting: u64,
    /// The first ten of those: in the expected order of service, then those waiting for their key.
    pub first: Vec<Explained>,
    /// How many more are not listed.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub more: u64,
}

impl Question {
    /// Parses a payload.
    ///
    /// # Errors
    /// If the payload is not a question. The error contains the field and the reason.
    pub fn parse(payload: &[u8]) -> Result<Self, Invalid> {
        Incoming::parse_alone(payload, "a question is a JSON object")
    }
}

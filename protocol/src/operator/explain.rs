//! Why a request waits.

pub use crate::explained::{Explained, State};

use crate::epoch::Epoch;
use crate::id::PermitId;
use crate::incoming::{Incoming, Invalid};
use crate::name::Name;
use crate::status::LimitStatus;
use serde::{Deserialize, Serialize};

/// A question on `rampmeter.explain.<resource>`. An empty payload asks about the whole queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Question {
    /// The request that the question is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<PermitId>,
    /// Lists requests of this class alone. Not beside an id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Name>,
    /// Lists requests of this client alone, if the resource shares by a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Lists requests alone that this limit holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Name>,
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The resource.
    pub resource: Name,
    /// The epoch of the leader that answers.
    pub epoch: Epoch,
    /// The limits as they are now.
    pub limits: Vec<LimitStatus>,
    /// The request that the question was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Explained>,
    /// How many requests are ahead of that request, in the class queue or for the same key. If the
    /// question names no request, all waiting requests are counted that it is about: of a client or
    /// a limit, among the first thousand of each class.
    pub waiting: u64,
    /// The first of those requests, at most ten, in the order in which they will probably be
    /// served. Requests that wait only for their own key follow, by age.
    pub first: Vec<Explained>,
    /// How many of those are not listed.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub more: u64,
}

impl Question {
    /// Reads a payload.
    ///
    /// # Errors
    /// If the payload is not a question: the field and the reason.
    pub fn parse(payload: &[u8]) -> Result<Self, Invalid> {
        Incoming::parse_alone(payload, "a question is a JSON object")
    }
}

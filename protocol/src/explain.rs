//! Why a request waits.

use crate::id::PermitId;
use crate::incoming::{Incoming, Invalid};
use crate::name::Name;
use crate::status::LimitStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A question on `rampmeter.explain.<resource>`; an empty payload asks about nobody in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Question {
    /// The request that is asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<PermitId>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The resource.
    pub resource: Name,
    /// Grows with every change of leader.
    pub epoch: u64,
    /// Its limits as they are now.
    pub limits: Vec<LimitStatus>,
    /// The request that was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Explained>,
    /// How many are ahead of it, in line or for the same key; of all, if nobody in particular was asked about.
    pub waiting: u64,
    /// The first of them, at most ten: in the order in which they will probably be served, and then those who wait for a key of their own alone,
    /// by age.
    pub first: Vec<Explained>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// Its id.
    pub id: PermitId,
    /// What has become of it.
    pub state: State,
    /// Its class.
    pub class: Name,
    /// With whom it shares what its class gets, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// What it takes, by limit; of a keyed limit, from the bucket of its key.
    pub takes: BTreeMap<Name, f64>,
    /// The limit that holds it, or held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Name>,
    /// How the bucket that holds it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Holder>,
    /// How many are ahead of it.
    pub position: u64,
    /// How long it has waited.
    pub waited_ms: f64,
    /// How long until it starts; negative if it has.
    pub eta_ms: f64,
}

/// The bucket that holds a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// Whose it is, where the limit has a bucket for each key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What could be spent now, negative when promises reach into the future.
    pub level: f64,
    /// When the level will be above zero again.
    pub next_free_ms: f64,
}

/// What has become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits.
    Waiting,
    /// It has a permit.
    Granted,
    /// It was given back or cancelled.
    Returned,
}

impl Question {
    /// Reads a payload.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(payload: &[u8]) -> Result<Self, Invalid> {
        match Incoming::parse(payload) {
            Incoming::One(question) => question,
            Incoming::Many(_) => Err(Invalid::whole("a question is a JSON object".to_owned())),
        }
    }
}

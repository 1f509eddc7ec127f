//! One request and the reason why it waits.

use crate::id::PermitId;
use crate::name::Name;
use crate::reason::{Holder, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The explanation of one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// Its id.
    pub id: PermitId,
    /// Whether it waits, has a permit, or has ended.
    pub state: State,
    /// Its class.
    pub class: Name,
    /// The client whose fair share it uses, if the resource shares by a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Its labels while it waits. Granted permits, of which there may be a million, keep none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its cost by limit. For a keyed limit, the amount comes from the bucket of its key.
    pub takes: BTreeMap<Name, f64>,
    /// The limit that delays or delayed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Name>,
    /// Why it waits; absent once it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The bucket that delays it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Holder>,
    /// How many requests are ahead of it.
    pub position: u64,
    /// Time waited so far.
    pub waited_ms: f64,
    /// Time until its start; negative after the start.
    pub eta_ms: f64,
    /// Time until its maximum wait is over; absent if it does not wait or has no maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives_up_ms: Option<f64>,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The request waits.
    Waiting,
    /// The request has a permit.
    Granted,
    /// The request was given back or cancelled.
    Returned,
}

//! Operators' orders to end waits.

use crate::epoch::Epoch;
use crate::incoming::{Incoming, Invalid};
use crate::name::Name;
use serde::{Deserialize, Serialize};

/// An order on `rampmeter.purge.<resource>` to end the waits of matching requests, by default all.
///
/// ```
/// use rampmeter_protocol::purge::Purge;
/// let order = Purge::parse(br#"{"client": "team-a", "class": "bulk"}"#).unwrap();
/// assert_eq!(order.client.as_deref(), Some("team-a"));
/// assert!(Purge::parse(br#"{"klass": "bulk"}"#).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Purge {
    /// The client, a value of the label that the resource shares by; any client if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The class; any class if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// The answer to a [`Purge`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// The resource whose leader answers.
    pub resource: Name,
    /// The epoch of the leader that answers.
    pub epoch: Epoch,
    /// Number of waits ended.
    pub ended: u64,
}

impl Purge {
    /// Parses a payload.
    ///
    /// # Errors
    /// If the payload is not an order. The error contains the field and the reason.
    pub fn parse(payload: &[u8]) -> Result<Self, Invalid> {
        Incoming::parse_alone(payload, "an order to end waits is a JSON object")
    }
}

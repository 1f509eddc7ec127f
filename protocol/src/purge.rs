//! Ending waits by hand.

use crate::incoming::{Incoming, Invalid};
use crate::name::Name;
use serde::{Deserialize, Serialize};

/// An order on `rampmeter.purge.<resource>`: ends the waits of all requests that it is for. An empty payload is for all.
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
    /// The client, as the resource shares between them; any client if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The class; any class if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// The resource.
    pub resource: Name,
    /// Grows with every change of leader.
    pub epoch: u64,
    /// How many waits have been ended.
    pub ended: u64,
}

impl Purge {
    /// Reads a payload.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(payload: &[u8]) -> Result<Self, Invalid> {
        match Incoming::parse(payload) {
            Incoming::One(order) => order,
            Incoming::Many(_) => Err(Invalid::whole("an order to end waits is a JSON object".to_owned())),
        }
    }
}

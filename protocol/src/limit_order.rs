//! An operator's order about limits: to end their pauses, or to take their stock.

use crate::incoming::{Incoming, Invalid};
use crate::name::Name;
use serde::{Deserialize, Serialize};

/// An order on `rampmeter.thaw.<resource>` or `rampmeter.empty.<resource>`. It is about one limit,
/// or about all limits of the resource; an empty payload means all.
///
/// ```
/// use rampmeter_protocol::limit_order::LimitOrder;
/// let order = LimitOrder::parse(br#"{"limit": "per-month"}"#).unwrap();
/// assert_eq!(order.limit.as_deref(), Some("per-month"));
/// assert!(LimitOrder::parse(br#"{"limits": "per-month"}"#).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitOrder {
    /// The limit; all if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Name>,
}

/// The answer to a [`LimitOrder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitOrderDone {
    /// The resource.
    pub resource: Name,
    /// The epoch of the leader that answers.
    pub epoch: u64,
    /// The limits whose pauses have ended, or whose stock was taken.
    pub limits: Vec<Name>,
    /// Whether more keys are still paused: the same order ends their pauses, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

impl LimitOrder {
    /// Reads a payload.
    ///
    /// # Errors
    /// If the payload is not an order: the field and the reason.
    pub fn parse(payload: &[u8]) -> Result<Self, Invalid> {
        Incoming::parse_alone(payload, "an order about limits is a JSON object")
    }
}

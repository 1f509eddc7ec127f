//! Operators' orders to freeze, thaw or empty limits.

use crate::epoch::Epoch;
use crate::incoming::{Incoming, Invalid};
use crate::millis::Millis;
use crate::name::Name;
use crate::time::Span;
use serde::{Deserialize, Serialize};

/// An order on `rampmeter.thaw.<resource>` or `rampmeter.empty.<resource>`. It is about one limit,
/// or about all limits of the resource; an empty payload means all. It covers limits with a key.
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
    /// The limit; all limits if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Name>,
    /// The account, all of whose limits are meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
}

/// Longest freeze that an operator can order, so that a forgotten one ends within a day.
pub const LONGEST_FREEZE: Span = Span::from_secs(86_400);
const SHORTEST_FREEZE: Span = Span::from_millis(1);

/// An order on `rampmeter.freeze.<resource>`: calls that take from the limit, or from any limit of the resource, do not
/// start. Limits with a key cannot be frozen: an order for all leaves them out, one for such a limit is refused.
///
/// ```
/// use rampmeter_protocol::{limit_order::FreezeOrder, time::Span};
/// let order = FreezeOrder::parse(br#"{"limit": "per-minute", "for_ms": 60000}"#).unwrap();
/// assert_eq!(order.for_ms.span(), Span::from_secs(60));
/// assert!(FreezeOrder::parse(br#"{"for_ms": 1e9}"#).is_err(), "more than a day");
/// assert!(FreezeOrder::parse(br#"{"limit": "per-minute"}"#).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreezeOrder {
    /// The limit; all limits if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Name>,
    /// The account, all of whose limits are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
    /// Duration of the freeze, from a millisecond to a day. It never shortens a longer pause.
    pub for_ms: Millis,
}

impl FreezeOrder {
    /// Parses a payload.
    ///
    /// # Errors
    /// If the payload is not an order. The error contains the field and the reason.
    pub fn parse(payload: &[u8]) -> Result<Self, Invalid> {
        let order: FreezeOrder = Incoming::parse_alone(payload, "an order to freeze limits is a JSON object")?;
        match (SHORTEST_FREEZE..=LONGEST_FREEZE).contains(&order.for_ms.span()) {
            true => Ok(order),
            false => {
                let (field, reason) =
                    (Some("for_ms".to_owned()), "a freeze lasts from a millisecond to a day".to_owned());
                Err(Invalid { id: None, field, reason })
            }
        }
    }
}

/// The answer to a [`LimitOrder`] or a [`FreezeOrder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitOrderDone {
    /// The resource whose leader answers.
    pub resource: Name,
    /// The epoch of the leader that answers.
    pub epoch: Epoch,
    /// The limits that were frozen, thawed or emptied.
    pub limits: Vec<Name>,
    /// Whether more keys are still paused. Repeating the order ends their pauses too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

impl LimitOrder {
    /// Parses a payload.
    ///
    /// # Errors
    /// If the payload is not an order. The error contains the field and the reason.
    pub fn parse(payload: &[u8]) -> Result<Self, Invalid> {
        Incoming::parse_alone(payload, "an order about limits is a JSON object")
    }
}

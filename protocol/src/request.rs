//! Asking for a permit.

use crate::bounds::MAX_EPOCH;
use crate::cost::Cost;
use crate::id::PermitId;
use crate::labels::Labels;
use crate::millis::Millis;
use crate::text::Text;
use serde::{Deserialize, Deserializer, Serialize};

/// How a request wants to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Now, or refused.
    Allow,
    /// At once, with a binding delay.
    #[default]
    Reserve,
    /// When the turn has come: late binding.
    Wait,
}

/// A request for one permit. Every field may be left out; an unknown one is an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PermitRequest<'a> {
    /// Names the permit; the scheduler makes a name up where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<PermitId>,
    /// What the call costs.
    #[serde(borrow, skip_serializing_if = "Cost::is_empty")]
    pub cost: Cost<'a>,
    /// Priority class; the resource's default where there is none.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub class: Option<Text<'a>>,
    /// What limits match on and key by.
    #[serde(borrow, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels<'a>,
    /// How to answer.
    pub mode: Mode,
    /// Longest acceptable time from arrival to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<Millis>,
    /// Time that this request has waited already.
    #[serde(skip_serializing_if = "Millis::is_zero")]
    pub age_ms: Millis,
    /// Highest epoch that the client has seen for the resource.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "epoch")]
    pub epoch: Option<u64>,
    /// Wall clock at sending, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "unix_ms")]
    pub sent_unix_ms: Option<u64>,
    /// Whether `queued` answers are wanted while waiting.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub progress: bool,
    /// Whether a permit is to say what is [left](crate::left::Left) of the limits.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

fn epoch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let epoch = Option::<u64>::deserialize(deserializer)?;
    match epoch {
        Some(epoch) if epoch > MAX_EPOCH => {
            Err(serde::de::Error::custom(format!("an epoch is a whole number from 0 to {MAX_EPOCH}, not {epoch}")))
        }
        epoch => Ok(epoch),
    }
}

fn unix_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let millis = Option::<f64>::deserialize(deserializer)?;
    match millis {
        Some(millis) if !(0.0..=MAX_EPOCH as f64).contains(&millis) => {
            Err(serde::de::Error::custom(format!("a wall clock is milliseconds since 1970, not {millis:e}")))
        }
        millis => Ok(millis.map(|millis| millis as u64)),
    }
}

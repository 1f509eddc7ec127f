//! Asking for a permit.

use crate::bounds::MAX_EPOCH;
use crate::cost::Cost;
use crate::epoch::Epoch;
use crate::id::PermitId;
use crate::labels::Labels;
use crate::millis::Millis;
use crate::price::Price;
use crate::text::Text;
use crate::trace_context::TraceContext;
use serde::{Deserialize, Deserializer, Serialize};

/// How a request wants to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The answer is an immediate permit or a refusal.
    Allow,
    /// The answer comes at once, with a binding delay.
    #[default]
    Reserve,
    /// The answer comes when the request's turn has come: late binding.
    Wait,
}

/// A request for one permit. Every field may be left out. An unknown field is an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PermitRequest<'a> {
    /// The id of the permit. If it is left out, the scheduler generates one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<PermitId>,
    /// What the call costs.
    #[serde(borrow, skip_serializing_if = "Cost::is_empty")]
    pub cost: Cost<'a>,
    /// In place of a cost: the request to the upstream, if the resource computes costs.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub price: Option<Box<Price<'a>>>,
    /// The priority class; the resource's default if it is left out.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub class: Option<Text<'a>>,
    /// The labels that limits match on and key by.
    #[serde(borrow, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels<'a>,
    /// When to answer.
    pub mode: Mode,
    /// The longest acceptable time from arrival to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<Millis>,
    /// How long this request has already waited.
    #[serde(skip_serializing_if = "Millis::is_zero")]
    pub age_ms: Millis,
    /// The highest epoch that the client has seen for the resource.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "epoch")]
    pub epoch: Option<Epoch>,
    /// The wall clock at sending, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "unix_ms")]
    pub sent_unix_ms: Option<u64>,
    /// Whether the client wants `queued` answers while the request waits.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub progress: bool,
    /// A name that the client gives itself. If two requests under one id have different names, the
    /// second is refused.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub from: Option<Text<'a>>,
    /// Whether the permit is to say what is [left](crate::left::Left) of the limits.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// The span that the client asks in. It travels in a header of the message.
    #[serde(skip)]
    pub trace: Option<TraceContext>,
}

impl PermitRequest<'_> {
    /// An owned copy.
    #[must_use]
    pub fn into_owned(self) -> PermitRequest<'static> {
        PermitRequest {
            cost: self.cost.into_owned(),
            price: self.price.map(|price| Box::new(price.into_owned())),
            class: self.class.map(Text::into_owned),
            labels: self.labels.into_owned(),
            from: self.from.map(Text::into_owned),
            ..self
        }
    }
}

fn epoch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Epoch>, D::Error> {
    let epoch = Option::<Epoch>::deserialize(deserializer)?;
    match epoch {
        Some(epoch) if epoch.get() > MAX_EPOCH => {
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

//! Reporting how a call went.

use crate::bounds::{MAX_HEADER_VALUE, MAX_HEADERS};
use crate::cost::Cost;
use crate::id::PermitId;
use crate::labels::Labels;
use crate::millis::Millis;
use crate::object::pairs;
use crate::text::Text;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// How the call of one permit went. An unknown field is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settle<'a> {
    /// The permit.
    pub id: PermitId,
    /// Whether the call was made; `false` gives the permit back.
    #[serde(default = "yes")]
    pub used: bool,
    /// The actual cost of the call. A unit that is left out keeps its estimate.
    #[serde(borrow, default, skip_serializing_if = "Cost::is_empty")]
    pub cost: Cost<'a>,
    /// What the upstream answered.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response<'a>>,
    /// How long the call took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<Millis>,
    /// Renews the lease in limits that count calls in flight, and settles nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extend: bool,
    /// Accompanies `extend`. A successor that does not know the permit counts the call by it.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked<'a>>,
}

/// The part of a permit's request that limits look at. An unknown field is an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asked<'a> {
    /// What the call costs.
    #[serde(borrow, skip_serializing_if = "Cost::is_empty")]
    pub cost: Cost<'a>,
    /// What limits match on and key by.
    #[serde(borrow, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels<'a>,
}

fn yes() -> bool {
    true
}

impl<'a> Settle<'a> {
    /// The settle that renews the lease of the call `id`.
    #[must_use]
    pub fn extension(id: PermitId, asked: Asked<'a>) -> Self {
        Settle { extend: true, asked: Some(asked), ..Self::used(id) }
    }

    /// The settle that gives back `id`.
    #[must_use]
    pub fn unused(id: PermitId) -> Self {
        Settle { used: false, ..Self::used(id) }
    }

    /// The settle that reports only that the call of `id` was made.
    #[must_use]
    pub fn used(id: PermitId) -> Self {
        Settle { id, used: true, cost: Cost::new(), response: None, elapsed_ms: None, extend: false, asked: None }
    }
}

/// The upstream's status, and those of its headers that describe rate limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Response<'a> {
    /// HTTP status.
    pub status: u16,
    /// Headers as received.
    #[serde(borrow, default)]
    pub headers: Headers<'a>,
    /// Whether the body of the answer says that a quota is spent. No header says so, but a worker
    /// can read the body.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quota_spent: bool,
    /// The code of the error in the body of the answer, as received. It tells some answers with the
    /// same status apart.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Text<'a>>,
}

impl Response<'_> {
    /// Whether the status is 429, too many requests.
    #[must_use]
    pub const fn is_throttled(&self) -> bool {
        self.status == 429
    }
}

/// Headers of a response, names in lower case: at most 64, values of at most 1024 characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a>(Vec<(Text<'a>, Text<'a>)>);

impl<'a> Headers<'a> {
    /// The first of `all` headers that are within the bounds.
    pub fn first_of(all: impl IntoIterator<Item = (Text<'a>, Text<'a>)>) -> Self {
        let fitting = all.into_iter().filter(|(_, value)| short_enough(value).is_ok());
        Headers(fitting.take(MAX_HEADERS).collect())
    }

    /// The value of the header `name`. Case does not matter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }
}

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadersVisitor)
    }
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = Headers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings by header")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        pairs(map, MAX_HEADERS, |_: &Text, value: &Text| short_enough(value)).map(Headers)
    }
}

fn short_enough(value: &str) -> Result<(), String> {
    if value.len() <= MAX_HEADER_VALUE {
        return Ok(());
    }
    Err(format!("a header's value has at most {MAX_HEADER_VALUE} characters"))
}

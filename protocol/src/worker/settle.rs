//! Reporting what became of a permit.

use crate::bounds::{MAX_HEADER_VALUE, MAX_HEADERS};
use crate::cost::Cost;
use crate::id::PermitId;
use crate::labels::Labels;
use crate::millis::Millis;
use crate::object::pairs;
use crate::text::Text;
use crate::trace_context::TraceContext;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What became of a permit.
#[derive(Clone, Debug, PartialEq)]
pub struct Settle<'a> {
    /// The permit.
    pub id: PermitId,
    /// What became of it.
    pub fate: Fate<'a>,
    /// What the permit was asked for, while its lease runs. A successor of the scheduler that granted
    /// it may not know the permit, and counts or ends the call by this.
    pub asked: Option<Asked<'a>>,
    /// The span in which the permit was asked for. It travels in a header of the message.
    pub trace: Option<TraceContext>,
}

/// What became of a permit: its call was made or not, or goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate<'a> {
    /// The call was not made: the permit goes back.
    Unused,
    /// The call was made.
    Used(Report<'a>),
    /// The call goes on: its lease is renewed in limits that count calls in flight.
    Extended,
}

/// How a call went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report<'a> {
    /// The actual cost of the call. A unit that is left out keeps its estimate.
    pub cost: Cost<'a>,
    /// What the upstream answered.
    pub response: Option<Response<'a>>,
    /// How long the call took.
    pub elapsed_ms: Option<Millis>,
    /// How long after the permit's start the call was sent.
    pub late_ms: Option<Millis>,
}

/// A settle as it is written. An unknown field is an error.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    id: PermitId,
    #[serde(default = "yes")]
    used: bool,
    #[serde(borrow, default, skip_serializing_if = "Cost::is_empty")]
    cost: Cost<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    response: Option<Response<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elapsed_ms: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late_ms: Option<Millis>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    extend: bool,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    asked: Option<Asked<'a>>,
}

/// The part of a permit's request that limits look at. An unknown field is an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asked<'a> {
    /// What the call costs.
    #[serde(borrow, skip_serializing_if = "Cost::is_empty")]
    pub cost: Cost<'a>,
    /// The labels that limits match on and key by.
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
        Settle { id, fate: Fate::Extended, asked: Some(asked), trace: None }
    }

    /// The settle that gives back `id`.
    #[must_use]
    pub fn unused(id: PermitId) -> Self {
        Settle { id, fate: Fate::Unused, asked: None, trace: None }
    }

    /// The settle that reports only that the call of `id` was made.
    #[must_use]
    pub fn used(id: PermitId) -> Self {
        Self::reported(id, Report::default())
    }

    /// The settle that reports how the call of `id` went.
    #[must_use]
    pub fn reported(id: PermitId, report: Report<'a>) -> Self {
        Settle { id, fate: Fate::Used(report), asked: None, trace: None }
    }

    /// What the upstream answered to the call, if it was made and answered.
    #[must_use]
    pub fn response(&self) -> Option<&Response<'a>> {
        match &self.fate {
            Fate::Used(report) => report.response.as_ref(),
            Fate::Unused | Fate::Extended => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Settle<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Written::deserialize(deserializer).map(Self::from)
    }
}

impl Serialize for Settle<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written::from(self.clone()).serialize(serializer)
    }
}

impl<'a> From<Written<'a>> for Settle<'a> {
    /// A renewal and a returned permit carry no report.
    fn from(written: Written<'a>) -> Self {
        let Written { id, used, cost, response, elapsed_ms, late_ms, extend, asked } = written;
        let fate = match (extend, used) {
            (true, _) => Fate::Extended,
            (false, true) => Fate::Used(Report { cost, response, elapsed_ms, late_ms }),
            (false, false) => Fate::Unused,
        };
        Settle { id, fate, asked, trace: None }
    }
}

impl<'a> From<Settle<'a>> for Written<'a> {
    fn from(Settle { id, fate, asked, trace: _ }: Settle<'a>) -> Self {
        let (used, extend) = (fate != Fate::Unused, fate == Fate::Extended);
        let Report { cost, response, elapsed_ms, late_ms } = match fate {
            Fate::Unused | Fate::Extended => Report::default(),
            Fate::Used(report) => report,
        };
        Written { id, used, cost, response, elapsed_ms, late_ms, extend, asked }
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
        pairs(deserializer, "an object of strings by header", MAX_HEADERS, |_: &Text, value: &Text| short_enough(value))
            .map(Headers)
    }
}

fn short_enough(value: &str) -> Result<(), String> {
    if value.len() <= MAX_HEADER_VALUE {
        return Ok(());
    }
    Err(format!("a header's value has at most {MAX_HEADER_VALUE} characters"))
}

#[cfg(test)]
mod tests {
    use super::{Fate, Settle};

    /// Reads a settle, writes it again, and compares the text.
    fn check(read: &str, written: &str) {
        let settle: Settle<'_> = serde_json::from_str(read).unwrap();
        assert_eq!(serde_json::to_string(&settle).unwrap(), written);
    }

    #[test]
    fn a_settle_says_one_of_three_things() {
        for alone in [
            r#"{"id":"a","used":true}"#,
            r#"{"id":"a","used":false}"#,
            r#"{"id":"a","used":true,"extend":true}"#,
            r#"{"id":"a","used":true,"extend":true,"asked":{"labels":{"region":"eu"}}}"#,
            r#"{"id":"a","used":true,"cost":{"requests":2},"response":{"status":429,"headers":{}},"elapsed_ms":5.0}"#,
        ] {
            check(alone, alone);
        }
        check(r#"{"id":"a"}"#, r#"{"id":"a","used":true}"#);
        check(r#"{"id":"a","used":false,"extend":true,"elapsed_ms":5}"#, r#"{"id":"a","used":true,"extend":true}"#);
        check(r#"{"id":"a","used":false,"cost":{"requests":2}}"#, r#"{"id":"a","used":false}"#);
    }

    #[test]
    fn a_permit_that_was_given_back_has_no_response() {
        let settle: Settle<'_> = serde_json::from_str(r#"{"id":"a","used":false,"response":{"status":429}}"#).unwrap();
        assert_eq!((&settle.fate, settle.response()), (&Fate::Unused, None));
    }
}

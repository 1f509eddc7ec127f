//! Reports on what happened to permits.

use crate::bounds::{MAX_HEADER_VALUE, MAX_HEADERS};
use crate::cost::Cost;
use crate::headers::{may_be_secret, speaks_of_limits};
use crate::id::PermitId;
use crate::labels::{Labels, with_account};
use crate::millis::Millis;
use crate::text::Text;
use crate::trace_context::TraceContext;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A report on what happened to a permit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written<'_>", into = "Written<'_>", bound(deserialize = "'de: 'a"))]
pub struct Settle<'a> {
    /// The permit.
    pub id: PermitId,
    /// Whether the call was made.
    pub fate: Fate<'a>,
    /// What was asked, while the lease runs: a successor that does not know the permit charges or ends the call by it.
    pub asked: Option<Asked<'a>>,
    /// The span in which the permit was requested, which travels in a header of the message.
    pub trace: Option<TraceContext>,
}

/// Whether a permit's call was made, was not made, or goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate<'a> {
    /// The call was not made, and the permit is given back.
    Unused,
    /// The call was made.
    Used(Report<'a>),
    /// The call goes on, and its lease in limits of calls in flight is renewed.
    Extended,
}

/// How a call went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report<'a> {
    /// The actual cost of the call. A unit that is missing keeps its estimate.
    pub cost: Cost<'a>,
    /// The upstream's response.
    pub response: Option<Response<'a>>,
    /// How long the call took.
    pub elapsed_ms: Option<Millis>,
    /// How long after the permit's start the call was sent.
    pub late_ms: Option<Millis>,
}

/// A settle as written. An unknown field is an error.
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

/// The part of a permit's request that limits depend on. An unknown field is an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asked<'a> {
    /// The cost of the call.
    #[serde(borrow, skip_serializing_if = "Cost::is_empty")]
    pub cost: Cost<'a>,
    /// The labels that limits match and key on, with the account that makes the call.
    #[serde(borrow, skip_serializing_if = "Labels::is_empty", deserialize_with = "with_account")]
    pub labels: Labels<'a>,
}

fn yes() -> bool {
    true
}

impl<'a> Settle<'a> {
    /// Creates the settle that renews the lease of the call `id`.
    #[must_use]
    pub fn extension(id: PermitId, asked: Asked<'a>) -> Self {
        Settle { id, fate: Fate::Extended, asked: Some(asked), trace: None }
    }

    /// Creates the settle that gives `id` back.
    #[must_use]
    pub fn unused(id: PermitId) -> Self {
        Settle { id, fate: Fate::Unused, asked: None, trace: None }
    }

    /// Creates the settle that reports the call of `id` as made, and nothing else.
    #[must_use]
    pub fn used(id: PermitId) -> Self {
        Self::reported(id, Report::default())
    }

    /// Creates the settle that reports how the call of `id` went.
    #[must_use]
    pub fn reported(id: PermitId, report: Report<'a>) -> Self {
        Settle { id, fate: Fate::Used(report), asked: None, trace: None }
    }

    /// Returns the upstream's response, if the call was made and answered.
    #[must_use]
    pub fn response(&self) -> Option<&Response<'a>> {
        match &self.fate {
            Fate::Used(report) => report.response.as_ref(),
            Fate::Unused | Fate::Extended => None,
        }
    }
}

impl<'a> From<Written<'a>> for Settle<'a> {
    /// Renewals and returned permits carry no report.
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

/// The upstream's status and its headers that describe rate limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Response<'a> {
    /// HTTP status.
    pub status: u16,
    /// Headers as received.
    #[serde(borrow, default)]
    pub headers: Headers<'a>,
    /// Whether the body says that a quota is spent, which no header does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quota_spent: bool,
    /// The error code in the body, as received, which distinguishes responses with equal status.
    #[serde(borrow, default, deserialize_with = "code", skip_serializing_if = "Option::is_none")]
    pub code: Option<Text<'a>>,
}

impl Response<'_> {
    /// Returns whether the status is 429 (Too Many Requests).
    #[must_use]
    pub const fn is_throttled(&self) -> bool {
        self.status == 429
    }
}

/// A response's headers, names in lower case: at most 64, with values of at most 1024 characters.
/// The rest is left out; headers that describe limits come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a>(Vec<(Text<'a>, Text<'a>)>);

impl<'a> Headers<'a> {
    /// Keeps the first of `all` headers that are within the bounds.
    pub fn first_of(all: impl IntoIterator<Item = (Text<'a>, Text<'a>)>) -> Self {
        let fitting = all.into_iter().filter(|(_, value)| short_enough(value));
        Headers(fitting.take(MAX_HEADERS).collect())
    }

    /// Iterates over the names, as received, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the value of the header `name`. Case does not matter.
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

/// Reads headers as tolerantly as the bounds allow, so that odd types do not hide why a call was rejected.
struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = Headers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings by header")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers<'de>, A::Error> {
        let (mut of_limits, mut others): (Vec<(Text<'de>, Text<'de>)>, Vec<_>) = Default::default();
        while let Some((name, LooseText(value))) = map.next_entry::<Text<'de>, LooseText<'de>>()? {
            let known = if speaks_of_limits(&name) { &mut of_limits } else { &mut others };
            let Some(value) = value.filter(|value| short_enough(value)) else { continue };
            let is_new = !known.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name));
            if is_new && known.len() < MAX_HEADERS && !may_be_secret(&name.to_ascii_lowercase()) {
                known.push((name, value));
            }
        }
        Ok(Headers(of_limits.into_iter().chain(others).take(MAX_HEADERS).collect()))
    }
}

/// A text as clients write it: a string, a number, or several, joined by commas as in HTTP; `None` for anything else.
struct LooseText<'a>(Option<Text<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for LooseText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseTextVisitor).map(LooseText)
    }
}

struct LooseTextVisitor;

impl<'de> Visitor<'de> for LooseTextVisitor {
    type Value = Option<Text<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Text::from(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Text::from(text.to_owned())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(Text::from(number.to_string())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(Text::from(number.to_string())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(Text::from(number.to_string())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    /// Drops what exceeds the bound of a value.
    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let mut joined = String::new();
        while let Some(LooseText(value)) = values.next_element()? {
            if let Some(value) = value.filter(|_| short_enough(&joined)) {
                let comma = if joined.is_empty() { "" } else { ", " };
                joined = joined + comma + &value;
            }
        }
        Ok(Some(Text::from(joined)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// Reads an error code, which some APIs write as a number.
fn code<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Text<'a>>, D::Error> {
    LooseText::deserialize(deserializer).map(|code| code.0)
}

fn short_enough(value: &str) -> bool {
    value.len() <= MAX_HEADER_VALUE
}

#[cfg(test)]
mod tests {
    use super::{Fate, Headers, Response, Settle};

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
    fn headers_are_kept_as_far_as_bounds_hold() {
        let many: String = (0..80).map(|number| format!("\"x-{number}\":\"v\",")).collect();
        let long = "v".repeat(1025);
        #[rustfmt::skip]
        let table = [
            (r#"{"retry-after":30,"x-ratelimit-remaining":0.5}"#,   r#"{"retry-after":"30","x-ratelimit-remaining":"0.5"}"#),
            (r#"{"retry-after":["30",60]}"#,                        r#"{"retry-after":"30, 60"}"#),
            (r#"{"x":null,"y":{"a":[1]},"z":true,"q":"1"}"#,        r#"{"q":"1"}"#),
            (r#"{"Set-Cookie":"s","authorization":"s","q":"1"}"#,   r#"{"q":"1"}"#),
            (r#"{"Retry-After":"1","retry-after":"2"}"#,            r#"{"Retry-After":"1"}"#),
            (&format!(r#"{{"date":"{long}","q":"1"}}"#),            r#"{"q":"1"}"#),
        ];
        for (read, kept) in table {
            let headers: Headers<'_> = serde_json::from_str(read).unwrap();
            assert_eq!(serde_json::to_string(&headers).unwrap(), kept, "{read}");
        }
        let headers = format!(r#"{{{many}"Retry-After":"9"}}"#);
        let headers: Headers<'_> = serde_json::from_str(&headers).unwrap();
        assert_eq!((headers.iter().count(), headers.get("retry-after")), (64, Some("9")));
        assert!(serde_json::from_str::<Headers<'_>>("[]").is_err());
        let many = format!(r#"{{"q":[{}0],"r":"1"}}"#, "1,".repeat(5000));
        let headers: Headers<'_> = serde_json::from_str(&many).unwrap();
        assert_eq!(serde_json::to_string(&headers).unwrap(), r#"{"r":"1"}"#, "a list that is too long");
        let response: Response<'_> = serde_json::from_str(r#"{"status":403,"code":88}"#).unwrap();
        assert_eq!(response.code.as_deref(), Some("88"));
    }

    #[test]
    fn a_permit_that_was_given_back_has_no_response() {
        let settle: Settle<'_> = serde_json::from_str(r#"{"id":"a","used":false,"response":{"status":429}}"#).unwrap();
        assert_eq!((&settle.fate, settle.response()), (&Fate::Unused, None));
    }
}

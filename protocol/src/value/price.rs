//! The request from which the scheduler computes a cost.

use crate::text::Text;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A request to the upstream, from which the scheduler computes the cost of the call.
///
/// ```
/// use rampmeter_protocol::price::Price;
/// let price = Price::new("sentinel-hub", "process", r#"{"input":{}}"#).unwrap().given(r#"{"samples":3}"#).unwrap();
/// let text = r#"{"kind":"sentinel-hub","api":"process","body":{"input":{}},"given":{"samples":3}}"#;
/// assert_eq!(serde_json::to_string(&price).unwrap(), text);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price<'a> {
    /// The rules that compute the cost, such as `sentinel-hub`.
    #[serde(borrow)]
    pub kind: Text<'a>,
    /// The upstream's API, such as `process` or `statistical`.
    #[serde(borrow)]
    pub api: Text<'a>,
    /// The body of the request to the upstream.
    #[serde(borrow, deserialize_with = "json")]
    pub body: Cow<'a, RawValue>,
    /// Facts that the body does not contain.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none", deserialize_with = "some_json")]
    pub given: Option<Cow<'a, RawValue>>,
}

impl Price<'_> {
    /// Copies what the price borrows from its message.
    #[must_use]
    pub fn into_owned(self) -> Price<'static> {
        let owned = |json: Cow<'_, RawValue>| Cow::Owned(json.into_owned());
        Price {
            kind: self.kind.into_owned(),
            api: self.api.into_owned(),
            body: owned(self.body),
            given: self.given.map(owned),
        }
    }
}

impl Price<'static> {
    /// Creates the price of a JSON body.
    ///
    /// # Errors
    /// If `body` is not JSON.
    pub fn new(kind: &str, api: &str, body: &str) -> serde_json::Result<Self> {
        let text = |text: &str| Text::from(text.to_owned());
        Ok(Price { kind: text(kind), api: text(api), body: owned(body)?, given: None })
    }

    /// Sets facts that the body does not contain, as a JSON object.
    ///
    /// # Errors
    /// If `given` is not JSON.
    pub fn given(self, given: &str) -> serde_json::Result<Self> {
        Ok(Price { given: Some(owned(given)?), ..self })
    }
}

fn owned(text: &str) -> serde_json::Result<Cow<'static, RawValue>> {
    RawValue::from_string(text.to_owned()).map(Cow::Owned)
}

/// Borrows the text from the message; serde's own reader of a `Cow` would copy it.
fn json<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Cow::Borrowed)
}

fn some_json<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'a, RawValue>>, D::Error> {
    let value = Option::<&'a RawValue>::deserialize(deserializer)?;
    Ok(value.map(Cow::Borrowed))
}

impl PartialEq for Price<'_> {
    fn eq(&self, other: &Self) -> bool {
        let given = |price: &Self| price.given.as_ref().map(|given| given.get().to_owned());
        (&self.kind, &self.api, self.body.get(), given(self))
            == (&other.kind, &other.api, other.body.get(), given(other))
    }
}

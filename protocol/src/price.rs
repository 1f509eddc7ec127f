//! What a request gives in place of a cost, so that the scheduler computes it.

use crate::text::Text;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The request to the upstream, from which the scheduler computes what it costs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price<'a> {
    /// The rules by which it is computed, such as `sentinel-hub`.
    #[serde(borrow)]
    pub kind: Text<'a>,
    /// The upstream's API that is called, such as `process` or `statistical`.
    #[serde(borrow)]
    pub api: Text<'a>,
    /// The body of the request, as it is sent to the upstream.
    #[serde(borrow)]
    pub body: &'a RawValue,
    /// What the body does not tell.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub given: Option<&'a RawValue>,
}

impl PartialEq for Price<'_> {
    fn eq(&self, other: &Self) -> bool {
        let given = |price: &Self| price.given.map(|given| given.get().to_owned());
        (&self.kind, &self.api, self.body.get(), given(self))
            == (&other.kind, &other.api, other.body.get(), given(other))
    }
}

//! What a limit has left for a granted call.

use crate::text::Text;
use serde::{Deserialize, Serialize};

/// What is left of a limit that a permit was charged to, or of the bucket of the call's key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Left<'a> {
    /// The limit's name, as in `limited_by`.
    #[serde(borrow)]
    pub limit: Text<'a>,
    /// The unit that it counts.
    #[serde(borrow)]
    pub unit: Text<'a>,
    /// What can be spent now, without what is promised to requests or held back as margin.
    pub remaining: f64,
    /// Time until the bucket is full if nothing more is spent; absent if time does not refill it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reset_ms: Option<f64>,
}

impl Left<'_> {
    /// Copies what it borrows from its message.
    #[must_use]
    pub fn into_owned(self) -> Left<'static> {
        Left { limit: self.limit.into_owned(), unit: self.unit.into_owned(), ..self }
    }
}

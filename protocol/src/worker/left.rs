//! What a limit has left for a call that was granted.

use crate::text::Text;
use serde::{Deserialize, Serialize};

/// What is left of one limit that a permit was charged to. For a keyed limit, this is the bucket
/// of the call's key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Left<'a> {
    /// Its name.
    #[serde(borrow)]
    pub limit: Text<'a>,
    /// What it counts.
    #[serde(borrow)]
    pub unit: Text<'a>,
    /// How much could be spent right now. Stock that is promised to other requests or held back as
    /// margin is not left.
    pub remaining: f64,
    /// When the bucket is full again if nothing more is spent; absent if time does not refill it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reset_ms: Option<f64>,
}

impl Left<'_> {
    /// An owned copy.
    #[must_use]
    pub fn into_owned(self) -> Left<'static> {
        Left { limit: self.limit.into_owned(), unit: self.unit.into_owned(), ..self }
    }
}

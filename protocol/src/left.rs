//! What a limit still has for a call that was let through.

use crate::text::Text;
use serde::{Deserialize, Serialize};

/// One of the limits that a permit was charged to: of a keyed limit, the bucket of the call's own key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Left<'a> {
    /// Its name.
    #[serde(borrow)]
    pub limit: Text<'a>,
    /// What it counts.
    #[serde(borrow)]
    pub unit: Text<'a>,
    /// How much could be spent right now. What is promised to others for later is not left, nor is what is held back as margin.
    pub remaining: f64,
    /// When all of it is there again if nothing more is spent; absent where no time brings it back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reset_ms: Option<f64>,
}

impl Left<'_> {
    /// The same, independent of the message that it came in.
    #[must_use]
    pub fn into_owned(self) -> Left<'static> {
        Left { limit: self.limit.into_owned(), unit: self.unit.into_owned(), ..self }
    }
}

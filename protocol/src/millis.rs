//! Durations as messages have them: milliseconds, perhaps with a fraction.

use crate::bounds::MAX_MILLIS;
use crate::time::Span;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration of at most [`MAX_MILLIS`], written in milliseconds.
///
/// Reading rounds up to the next nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(Span);

/// A number that is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a duration is a number of milliseconds from 0 to 3.16e10 (366 days), not {0:e}")]
pub struct MillisError(f64);

impl Millis {
    /// From milliseconds.
    ///
    /// # Errors
    /// If `millis` is negative, not a number, or longer than [`MAX_MILLIS`].
    pub fn new(millis: f64) -> Result<Self, MillisError> {
        if !(0.0..=MAX_MILLIS).contains(&millis) {
            return Err(MillisError(millis));
        }
        Ok(Millis(Span::from_nanos((millis * 1e6).ceil() as u64)))
    }

    /// As a span.
    #[must_use]
    pub const fn span(self) -> Span {
        self.0
    }

    /// Whether there is none; such a field is left out.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == Span::ZERO
    }
}

impl From<Span> for Millis {
    fn from(span: Span) -> Self {
        Millis(span)
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.millis())
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let millis = f64::deserialize(deserializer)?;
        Millis::new(millis).map_err(serde::de::Error::custom)
    }
}

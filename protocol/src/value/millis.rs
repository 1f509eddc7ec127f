//! Durations in messages, in milliseconds with an optional fraction.

use crate::bounds::MAX_MILLIS;
use crate::time::Span;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration of at most [`MAX_MILLIS`], written in milliseconds without loss. Parsing rounds up to whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(Span);

/// The number is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a duration is a number of milliseconds from 0 to 3.16e10 (366 days), not {0:e}")]
pub struct MillisError(f64);

impl Millis {
    /// Creates a duration of this many milliseconds.
    ///
    /// # Errors
    /// If `millis` is negative, NaN, or longer than [`MAX_MILLIS`].
    pub fn new(millis: f64) -> Result<Self, MillisError> {
        if !(0.0..=MAX_MILLIS).contains(&millis) {
            return Err(MillisError(millis));
        }
        Ok(Millis(Span::from_nanos(whole_nanos(millis * 1e6))))
    }

    /// Returns the duration as a span.
    #[must_use]
    pub const fn span(self) -> Span {
        self.0
    }

    /// Returns whether the duration is zero; messages omit such a field.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == Span::ZERO
    }
}

/// Rounds up, except for the noise of two conversions.
fn whole_nanos(nanos: f64) -> u64 {
    let nearest = nanos.round();
    let is_noise = nanos - nearest <= nanos * 2.0 * f64::EPSILON;
    (if is_noise { nearest } else { nanos.ceil() }) as u64
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_nanoseconds_arrive_as_they_were_sent() {
        // Without the exception a third of these would come out a nanosecond longer.
        for nanos in (0..100_000).map(|number| number * 7_919_331 + number) {
            let span = Span::from_nanos(nanos);
            assert_eq!(Millis::new(span.millis()).unwrap().span(), span);
        }
    }

    #[test]
    fn what_is_finer_is_rounded_up() {
        for (millis, nanos) in [(0.0, 0), (1e-6, 1), (1.1e-6, 2), (0.000_000_4, 1), (2.000_000_1, 2_000_001)] {
            assert_eq!(Millis::new(millis).unwrap().span(), Span::from_nanos(nanos), "{millis}");
        }
    }
}

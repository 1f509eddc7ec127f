//! Counted units.

use crate::parsed::parsed;
use serde::{Deserialize, Deserializer};
use std::{borrow::Cow, fmt, str::FromStr};

/// Longest name of a unit, which leaves room in a header's name.
pub const MAX_UNIT_BYTES: usize = 64;

/// The name of a unit: lower-case letters, digits and hyphens after a letter, as queries and header names can carry.
///
/// ```
/// use rampmeter_upstream::Unit;
///
/// assert_eq!("requests".parse(), Ok(Unit::REQUESTS));
/// assert!("Processing Units".parse::<Unit>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit {
    name: Cow<'static, str>,
}

/// The text is not the name of a [`Unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a unit is a letter followed by letters, digits and hyphens, all lower case, {MAX_UNIT_BYTES} at most")]
pub struct UnitError;

impl Unit {
    /// Calls, of which each costs one by default.
    pub const REQUESTS: Self = Self::known("requests");
    /// Sentinel Hub's measure of work.
    pub const PROCESSING_UNITS: Self = Self::known("processing-units");

    const fn known(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name) }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl FromStr for Unit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let letter_first = text.starts_with(|first: char| first.is_ascii_lowercase());
        if !letter_first || text.len() > MAX_UNIT_BYTES || !text.bytes().all(is_allowed) {
            return Err(UnitError);
        }
        Ok(Self { name: Cow::Owned(text.to_owned()) })
    }
}

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let longest = "u".repeat(MAX_UNIT_BYTES);
        let too_long = "u".repeat(MAX_UNIT_BYTES + 1);
        for good in ["requests", "processing-units", "tokens2", "a", &longest] {
            assert_eq!(good.parse::<Unit>().unwrap().as_str(), good);
        }
        for bad in ["", "Requests", "2tokens", "-a", "a b", "a_b", "a=b", "é", &too_long] {
            assert_eq!(bad.parse::<Unit>(), Err(UnitError), "{bad:?}");
        }
    }
}

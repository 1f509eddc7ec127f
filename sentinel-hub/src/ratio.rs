//! Exact fractions.

use crate::Error;
use rampmeter_protocol::amount::Amount;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

const MICROS: u128 = 1_000_000;

/// An exact fraction in lowest terms. Its text is a decimal number, for people only.
///
/// ```
/// use rampmeter_sentinel_hub::Ratio;
/// assert_eq!(Ratio::of(4, 6).to_string(), "0.6666667");
/// assert_eq!(Ratio::of(7, 5).to_string(), "1.4");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    /// One.
    pub const ONE: Ratio = Ratio { numerator: 1, denominator: 1 };

    /// Creates a fraction.
    ///
    /// # Panics
    /// If the denominator is zero.
    #[must_use]
    pub fn of(numerator: u64, denominator: u64) -> Self {
        assert!(denominator > 0, "a fraction of zero parts");
        Self::reduced(numerator.into(), denominator.into())
    }

    fn reduced(numerator: u128, denominator: u128) -> Self {
        let common = greatest_common(numerator, denominator);
        Ratio { numerator: numerator / common, denominator: denominator / common }
    }

    pub(crate) fn times(self, other: Ratio) -> Result<Ratio, Error> {
        let numerator = self.numerator.checked_mul(other.numerator).ok_or_else(Error::too_much)?;
        let denominator = self.denominator.checked_mul(other.denominator).ok_or_else(Error::too_much)?;
        Ok(Ratio::reduced(numerator, denominator))
    }

    pub(crate) fn max(self, other: Ratio) -> Result<Ratio, Error> {
        let ours = self.numerator.checked_mul(other.denominator).ok_or_else(Error::too_much)?;
        let theirs = other.numerator.checked_mul(self.denominator).ok_or_else(Error::too_much)?;
        Ok(if ours >= theirs { self } else { other })
    }

    /// Rounds up to a millionth.
    pub(crate) fn amount(self) -> Result<Amount, Error> {
        let micros = self.numerator.checked_mul(MICROS).ok_or_else(Error::too_much)?.div_ceil(self.denominator);
        let amount = u64::try_from(micros).ok().and_then(|micros| Amount::from_micros(micros).ok());
        amount.ok_or_else(Error::too_much)
    }

    /// Returns the nearest float.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// Parses `2/3`, `1.4` or `2`.
    fn parse(text: &str) -> Option<Self> {
        if let Some((numerator, denominator)) = text.split_once('/') {
            let denominator = denominator.parse::<u64>().ok().filter(|denominator| *denominator > 0)?;
            return Some(Ratio::of(numerator.parse::<u64>().ok()?, denominator));
        }
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let scale = 10_u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
        Some(Ratio::of(format!("{whole}{decimals}").parse::<u64>().ok()?, scale))
    }
}

fn greatest_common(one: u128, other: u128) -> u128 {
    if other == 0 { one } else { greatest_common(other, one % other) }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.7}", self.to_f64());
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.to_f64())
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ratio::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is no fraction")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_read_and_multiplied_exactly() {
        #[rustfmt::skip]
        let table = [
            ("2/3",   "3",      Some(2_000_000)),
            ("1.4",   "1/3",    Some(466_667)),
            ("0.005", "1",      Some(5_000)),
            ("1/3",   "1/3",    Some(111_112)),
            ("1000000000", "1", Some(1_000_000_000_000_000)),
            ("1000000000", "2", None),
        ];
        for (one, other, micros) in table {
            let product = Ratio::parse(one).unwrap().times(Ratio::parse(other).unwrap()).unwrap();
            assert_eq!(product.amount().ok().map(Amount::micros), micros, "{one} × {other}");
        }
        for text in ["", "1/0", "-1", "1.2.3", "a", "1/2/3"] {
            assert_eq!(Ratio::parse(text), None, "{text}");
        }
    }
}

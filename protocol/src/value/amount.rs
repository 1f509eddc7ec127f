//! Amounts of units.

use crate::bounds::MAX_AMOUNT;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// An amount of one unit in whole millionths, from 0 to [`MAX_AMOUNT`] units.
///
/// ```
/// use rampmeter_protocol::amount::Amount;
/// assert_eq!(Amount::new(2.5).unwrap().micros(), 2_500_000);
/// assert_eq!(Amount::new(0.1 + 0.2).unwrap(), Amount::new(0.3).unwrap());
/// assert_eq!(Amount::round_up(1.0 / 3.0).unwrap().micros(), 333_334);
/// assert!(Amount::new(1.0 / 3.0).is_err());
/// assert!(Amount::new(-1.0).is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

/// Why a number is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum AmountError {
    /// The number is negative, above [`MAX_AMOUNT`], or NaN.
    #[error("an amount is a number from 0 to 1e9, not {0:e}")]
    OutOfRange(f64),
    /// The number is finer than a millionth.
    #[error("an amount has at most 6 decimals, not {0}; round it up")]
    TooFine(f64),
}

const MICROS: f64 = 1e6;
/// Largest difference between a six-decimal number and its nearest binary fraction, in millionths.
const BINARY_NOISE: f64 = 1e-3;

impl Amount {
    /// No units.
    pub const ZERO: Amount = Amount(0);
    /// A millionth of a unit.
    pub const SMALLEST: Amount = Amount(1);
    /// One whole unit.
    pub const ONE: Amount = Amount(1_000_000);

    /// Creates an amount from a number with at most six decimals.
    ///
    /// # Errors
    /// If `units` is out of range or finer than a millionth.
    pub fn new(units: f64) -> Result<Self, AmountError> {
        let micros = scaled(units)?;
        let whole = micros.round();
        if (micros - whole).abs() > BINARY_NOISE.max(micros * f64::EPSILON) {
            return Err(AmountError::TooFine(units));
        }
        Ok(Amount(whole as u64))
    }

    /// Creates an amount from any number in range, rounded up so that no caller pays too little.
    ///
    /// # Errors
    /// If `units` is out of range.
    pub fn round_up(units: f64) -> Result<Self, AmountError> {
        let micros = scaled(units)?;
        Self::new(units).or_else(|_| Self::from_micros(micros.ceil() as u64))
    }

    /// Creates an amount of whole units.
    #[must_use]
    pub const fn whole(units: u16) -> Self {
        Amount(units as u64 * Self::ONE.0)
    }

    /// Creates an amount from millionths.
    ///
    /// # Errors
    /// If `micros` exceeds [`MAX_AMOUNT`] units.
    pub fn from_micros(micros: u64) -> Result<Self, AmountError> {
        if micros > MAX_AMOUNT * Self::ONE.0 {
            return Err(AmountError::OutOfRange(micros as f64 / MICROS));
        }
        Ok(Amount(micros))
    }

    /// Returns the amount in millionths.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Returns the amount in units, for people and for the wire.
    #[must_use]
    pub fn units(self) -> f64 {
        self.0 as f64 / MICROS
    }

    /// Returns this amount minus `other`; zero if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Amount) -> Amount {
        Amount(self.0.saturating_sub(other.0))
    }

    /// Returns the sum, or the largest amount if the sum exceeds it.
    #[must_use]
    pub const fn saturating_add(self, other: Amount) -> Amount {
        let (sum, largest) = (self.0.saturating_add(other.0), MAX_AMOUNT * Self::ONE.0);
        Amount(if sum < largest { sum } else { largest })
    }
}

fn scaled(units: f64) -> Result<f64, AmountError> {
    if !(0.0..=MAX_AMOUNT as f64).contains(&units) {
        return Err(AmountError::OutOfRange(units));
    }
    Ok(units * MICROS)
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.units())
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(Self::ONE.0) {
            return serializer.serialize_u64(self.0 / Self::ONE.0);
        }
        serializer.serialize_f64(self.units())
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let units = f64::deserialize(deserializer)?;
        Amount::new(units).map_err(serde::de::Error::custom)
    }
}

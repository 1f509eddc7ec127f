//! Amounts of units.

use std::{fmt, str::FromStr};

const MICROS_PER_UNIT: u64 = 1_000_000;
const DECIMALS: usize = 6;

/// An amount of a unit: a non-negative decimal with six places, stored in micro-units.
///
/// ```
/// use rampmeter_upstream::Amount;
///
/// let amount: Amount = "2.5".parse()?;
/// assert_eq!(amount, Amount::from_micros(2_500_000));
/// assert_eq!(amount.to_string(), "2.5");
/// # Ok::<(), rampmeter_upstream::AmountError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount {
    micros: u64,
}

/// Why a text is not an [`Amount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// The text does not consist of digits with at most one point between them.
    #[error("not a decimal number such as 2 or 2.5")]
    Malformed,
    /// The text has more than six decimals, and rounding is not allowed.
    #[error("finer than six decimals")]
    TooFine,
    /// The amount exceeds the largest, about 1.8 × 10¹³ units.
    #[error("too large")]
    TooLarge,
}

impl Amount {
    /// No units.
    pub const ZERO: Self = Self::from_micros(0);
    /// One unit.
    pub const ONE: Self = Self::whole(1);

    /// Creates an amount of millionths of a unit.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self { micros }
    }

    /// Creates an amount of whole units.
    #[must_use]
    pub const fn whole(units: u32) -> Self {
        Self::from_micros(units as u64 * MICROS_PER_UNIT)
    }

    /// Returns the amount in millionths of a unit.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.micros
    }

    /// Parses a cost. Digits beyond the sixth decimal round up, never making it cheaper.
    ///
    /// ```
    /// use rampmeter_upstream::Amount;
    ///
    /// assert_eq!(Amount::parse_cost("0.0066667")?, Amount::from_micros(6_667));
    /// # Ok::<(), rampmeter_upstream::AmountError>(())
    /// ```
    ///
    /// # Errors
    /// [`AmountError::Malformed`] or [`AmountError::TooLarge`].
    pub fn parse_cost(text: &str) -> Result<Self, AmountError> {
        let decimal = Decimal::read(text)?;
        let micros = decimal.micros.checked_add(u64::from(decimal.has_rest));
        micros.map(Self::from_micros).ok_or(AmountError::TooLarge)
    }

    /// Returns the amount as a float, for people and charts but not for calculations.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.micros as f64 / MICROS_PER_UNIT as f64
    }

    /// Returns the sum, or the largest amount if it is exceeded.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self::from_micros(self.micros.saturating_add(other.micros))
    }

    /// Returns the difference, or zero if it is negative.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self::from_micros(self.micros.saturating_sub(other.micros))
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    /// Parses an amount exactly; [`Amount::parse_cost`] parses a cost.
    fn from_str(text: &str) -> Result<Self, AmountError> {
        let decimal = Decimal::read(text)?;
        if decimal.has_rest {
            return Err(AmountError::TooFine);
        }
        Ok(Self::from_micros(decimal.micros))
    }
}

impl fmt::Display for Amount {
    /// Writes the shortest decimal equal to this amount.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:06}", self.micros / MICROS_PER_UNIT, self.micros % MICROS_PER_UNIT);
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A decimal, cut after its sixth place.
struct Decimal {
    micros: u64,
    has_rest: bool,
}

impl Decimal {
    fn read(text: &str) -> Result<Self, AmountError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if !is_digits(whole) || !is_digits(fraction) {
            return Err(AmountError::Malformed);
        }
        let (fine, rest) = fraction.split_at(fraction.len().min(DECIMALS));
        let micros = format!("{whole}{fine:0<DECIMALS$}").parse();
        Ok(Self {
            micros: micros.map_err(|_| AmountError::TooLarge)?,
            has_rest: rest.bytes().any(|digit| digit != b'0'),
        })
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use AmountError::{Malformed, TooFine, TooLarge};

    #[test]
    fn texts_are_read_exactly_or_rounded_up_as_a_cost() {
        #[rustfmt::skip]
        let table = [
            // text,                    exactly,              as a cost
            ("0",                      Ok(0),                Ok(0)),
            ("1",                      Ok(1_000_000),        Ok(1_000_000)),
            ("007",                    Ok(7_000_000),        Ok(7_000_000)),
            ("2.5",                    Ok(2_500_000),        Ok(2_500_000)),
            ("0.000001",               Ok(1),                Ok(1)),
            ("0.0000010",              Ok(1),                Ok(1)),
            ("0.0000001",              Err(TooFine),         Ok(1)),
            ("42.66666666",            Err(TooFine),         Ok(42_666_667)),
            ("0.99999999",             Err(TooFine),         Ok(1_000_000)),
            ("18446744073709.551615",  Ok(u64::MAX),         Ok(u64::MAX)),
            ("18446744073709.551616",  Err(TooLarge),        Err(TooLarge)),
            ("18446744073709.5516151", Err(TooFine),         Err(TooLarge)),
            ("99999999999999999999",   Err(TooLarge),        Err(TooLarge)),
            ("",                       Err(Malformed),       Err(Malformed)),
            (".5",                     Err(Malformed),       Err(Malformed)),
            ("5.",                     Err(Malformed),       Err(Malformed)),
            ("1.2.3",                  Err(Malformed),       Err(Malformed)),
            ("-1",                     Err(Malformed),       Err(Malformed)),
            ("+1",                     Err(Malformed),       Err(Malformed)),
            ("1e3",                    Err(Malformed),       Err(Malformed)),
            ("1,5",                    Err(Malformed),       Err(Malformed)),
            (" 1",                     Err(Malformed),       Err(Malformed)),
            ("NaN",                    Err(Malformed),       Err(Malformed)),
            ("٣",                      Err(Malformed),       Err(Malformed)),
        ];
        for (text, exactly, cost) in table {
            assert_eq!(text.parse::<Amount>().map(Amount::micros), exactly, "{text:?}");
            assert_eq!(Amount::parse_cost(text).map(Amount::micros), cost, "{text:?} as a cost");
        }
    }

    #[test]
    fn amounts_print_as_short_as_they_can() {
        for text in ["0", "1", "10", "2.5", "0.000001", "42.666667", "18446744073709.551615"] {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), text);
        }
    }
}

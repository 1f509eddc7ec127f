//! Small whole numbers.

use crate::{Error, ErrorKind};
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// A number of pixels along a side, bands, samples, intervals or tiles, from 1 to [`Count::MAX`].
///
/// ```
/// use rampmeter_sentinel_hub::Count;
/// assert_eq!(Count::new(512).unwrap().get(), 512);
/// assert_eq!("0".parse::<Count>().unwrap_err().to_string(), "0 is out of bounds; pass a whole number from 1 to 1000000");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "u32")]
pub struct Count(u32);

impl Count {
    /// One.
    pub const ONE: Count = Count(1);
    /// The largest count; no request has as many. Products of a few counts stay within 128 bits.
    pub const MAX: u32 = 1_000_000;

    /// Checks the bounds.
    ///
    /// # Errors
    /// If it is zero or above [`Count::MAX`].
    pub fn new(count: u32) -> Result<Self, Error> {
        Self::checked(f64::from(count))
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    pub(crate) fn checked(count: f64) -> Result<Self, Error> {
        if count.fract() == 0.0 && (1.0..=f64::from(Self::MAX)).contains(&count) {
            return Ok(Count(count as u32));
        }
        let remedy = format!("pass a whole number from 1 to {}", Self::MAX);
        Err(Error::new(ErrorKind::OutOfBounds, format!("{count} is out of bounds"), remedy))
    }

    /// Returns the next whole number. The caller checks the bounds or reports an error.
    pub(crate) fn round_up(count: f64) -> Result<Self, Error> {
        // Dividing decimal fractions leaves noise, which is not another pixel.
        let noise = count * 1e-9;
        Self::checked((count - noise).ceil().max(1.0))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl TryFrom<u32> for Count {
    type Error = Error;

    fn try_from(count: u32) -> Result<Self, Error> {
        Self::new(count)
    }
}

impl FromStr for Count {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::checked(text.parse().unwrap_or(f64::NAN))
    }
}

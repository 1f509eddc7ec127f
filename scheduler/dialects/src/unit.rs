//! The unit of a bare number in `Retry-After`.

use std::fmt;
use std::str::FromStr;

/// The unit of a bare number in `Retry-After`.
///
/// ```
/// use rampmeter_dialects::RetryAfterUnit;
/// assert_eq!("milliseconds".parse(), Ok(RetryAfterUnit::Milliseconds));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfterUnit {
    /// The unit of HTTP.
    Seconds,
    /// The unit of Sentinel Hub.
    Milliseconds,
}

/// A name that no unit has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`Retry-After` is not in `{0}`, but in {known}", known = quoted(&RetryAfterUnit::ALL))]
pub struct UnknownUnit(String);

impl RetryAfterUnit {
    const ALL: [RetryAfterUnit; 2] = [RetryAfterUnit::Seconds, RetryAfterUnit::Milliseconds];

    const fn name(self) -> &'static str {
        match self {
            RetryAfterUnit::Seconds => "seconds",
            RetryAfterUnit::Milliseconds => "milliseconds",
        }
    }

    pub(crate) const fn in_millis(self) -> f64 {
        match self {
            RetryAfterUnit::Seconds => 1000.0,
            RetryAfterUnit::Milliseconds => 1.0,
        }
    }
}

impl fmt::Display for RetryAfterUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for RetryAfterUnit {
    type Err = UnknownUnit;

    fn from_str(text: &str) -> Result<Self, UnknownUnit> {
        let named = RetryAfterUnit::ALL.into_iter().find(|unit| unit.name() == text);
        named.ok_or_else(|| UnknownUnit(text.to_owned()))
    }
}

/// Names in backticks, separated by commas, for a message.
pub(crate) fn quoted(names: &[impl fmt::Display]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

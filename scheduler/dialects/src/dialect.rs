//! The dialects by name.

use crate::table::Table;
use crate::tables;
use std::fmt;
use std::str::FromStr;

/// How an upstream tells of its rate limits.
///
/// ```
/// use rampmeter_dialects::Dialect;
/// assert_eq!("sentinel-hub".parse(), Ok(Dialect::SentinelHub));
/// assert_eq!(Dialect::default().to_string(), "plain");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Sentinel Hub and Copernicus Data Space.
    SentinelHub,
    /// The IETF's draft of `RateLimit` fields, this one and earlier ones.
    Ietf,
    /// Discord.
    Discord,
    /// OpenAI, and the many that do as it does.
    Openai,
    /// Anthropic.
    Anthropic,
    /// GitHub.
    Github,
    /// HTTP and nothing else.
    #[default]
    Plain,
}

/// What a bare number in `Retry-After` counts.
///
/// ```
/// use rampmeter_dialects::RetryAfterUnit;
/// assert_eq!("milliseconds".parse(), Ok(RetryAfterUnit::Milliseconds));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfterUnit {
    /// As HTTP has it.
    Seconds,
    /// As Sentinel Hub has it.
    Milliseconds,
}

/// A name that no dialect has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no dialect `{0}`; there are {known}", known = quoted(&Dialect::ALL))]
pub struct UnknownDialect(String);

/// A name that no unit has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`Retry-After` is not in `{0}`, but in {known}", known = quoted(&RetryAfterUnit::ALL))]
pub struct UnknownUnit(String);

impl Dialect {
    /// All of them.
    pub const ALL: [Dialect; 7] = [
        Dialect::SentinelHub,
        Dialect::Ietf,
        Dialect::Discord,
        Dialect::Openai,
        Dialect::Anthropic,
        Dialect::Github,
        Dialect::Plain,
    ];

    const fn name(self) -> &'static str {
        match self {
            Dialect::SentinelHub => "sentinel-hub",
            Dialect::Ietf => "ietf",
            Dialect::Discord => "discord",
            Dialect::Openai => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::Github => "github",
            Dialect::Plain => "plain",
        }
    }

    pub(crate) const fn table(self) -> &'static Table {
        match self {
            Dialect::SentinelHub => &tables::SENTINEL_HUB,
            Dialect::Ietf => &tables::IETF,
            Dialect::Discord => &tables::DISCORD,
            Dialect::Openai => &tables::OPENAI,
            Dialect::Anthropic => &tables::ANTHROPIC,
            Dialect::Github => &tables::GITHUB,
            Dialect::Plain => &tables::PLAIN,
        }
    }

    /// All headers that are read, in lower case.
    #[must_use]
    pub fn headers(self) -> Vec<&'static str> {
        self.table().headers()
    }
}

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

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for RetryAfterUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(text: &str) -> Result<Self, UnknownDialect> {
        let named = Dialect::ALL.into_iter().find(|dialect| dialect.name() == text);
        named.ok_or_else(|| UnknownDialect(text.to_owned()))
    }
}

impl FromStr for RetryAfterUnit {
    type Err = UnknownUnit;

    fn from_str(text: &str) -> Result<Self, UnknownUnit> {
        let named = RetryAfterUnit::ALL.into_iter().find(|unit| unit.name() == text);
        named.ok_or_else(|| UnknownUnit(text.to_owned()))
    }
}

fn quoted(names: &[impl fmt::Display]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

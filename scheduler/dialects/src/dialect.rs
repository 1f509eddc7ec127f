//! The dialects by name.

use crate::tables::{self, Table};
use crate::unit::quoted;
use std::fmt;
use std::str::FromStr;

/// How an upstream reports its rate limits.
///
/// ```
/// use rampmeter_dialects::Dialect;
/// assert_eq!("sentinel-hub".parse(), Ok(Dialect::SentinelHub));
/// assert_eq!(Dialect::default().to_string(), "generic");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Sentinel Hub and Copernicus Data Space: `Retry-After` in milliseconds, and the cost of a
    /// call in `X-ProcessingUnits-Spent`.
    SentinelHub,
    /// The IETF's draft: `RateLimit` with `RateLimit-Policy`; `RateLimit-Limit`, `-Remaining` and
    /// `-Reset` of earlier drafts.
    Ietf,
    /// Discord: `X-RateLimit-Limit`, `-Remaining` and `-Reset-After` of a `-Bucket`.
    Discord,
    /// OpenAI, and the many APIs that copy its headers:
    /// `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`.
    Openai,
    /// Anthropic:
    /// `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`.
    /// Of windows that are used up, `anthropic-ratelimit-unified-{5h,7d}-{utilization,reset}`.
    Anthropic,
    /// GitHub: `x-ratelimit-{limit,remaining,used,reset}` of a `-resource`.
    Github,
    /// Shopify: `throttleStatus` of a body, which a worker passes on as the header
    /// `throttle-status`, and `X-Shopify-Shop-Api-Call-Limit`.
    Shopify,
    /// The headers of all dialects, and those that others use: `x-rate-limit-remaining`,
    /// `retry-after-ms`. A reset is a time or a moment by its size.
    #[default]
    Generic,
    /// HTTP and nothing else: `Retry-After`, which all other dialects have too.
    Plain,
}

/// A name that no dialect has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no dialect `{0}`; there are {known}", known = quoted(&Dialect::ALL))]
pub struct UnknownDialect(String);

impl Dialect {
    /// All dialects, in the order in which messages list them.
    pub const ALL: [Dialect; 9] = [
        Dialect::SentinelHub,
        Dialect::Ietf,
        Dialect::Discord,
        Dialect::Openai,
        Dialect::Anthropic,
        Dialect::Github,
        Dialect::Shopify,
        Dialect::Generic,
        Dialect::Plain,
    ];

    /// The name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::SentinelHub => "sentinel-hub",
            Dialect::Ietf => "ietf",
            Dialect::Discord => "discord",
            Dialect::Openai => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::Github => "github",
            Dialect::Shopify => "shopify",
            Dialect::Generic => "generic",
            Dialect::Plain => "plain",
        }
    }

    pub(crate) const fn table(self) -> &'static Table {
        match self {
            Dialect::SentinelHub => &tables::SENTINEL_HUB,
            Dialect::Github => &tables::GITHUB,
            Dialect::Ietf
            | Dialect::Discord
            | Dialect::Openai
            | Dialect::Anthropic
            | Dialect::Shopify
            | Dialect::Generic
            | Dialect::Plain => &tables::USUAL,
        }
    }
}

impl fmt::Display for Dialect {
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

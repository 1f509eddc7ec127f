//! The dialects by name.

use crate::tables::{self, Table};
use rampmeter_protocol::suggestion::quoted;
use std::str::FromStr;

rampmeter_protocol::named! {
    /// How an upstream reports its rate limits.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Dialect {
        /// Sentinel Hub and Copernicus Data Space: `Retry-After` in ms, a call's cost in `X-ProcessingUnits-Spent`.
        SentinelHub = "sentinel-hub",
        /// The IETF drafts: `RateLimit` with `RateLimit-Policy`; earlier `RateLimit-Limit`, `-Remaining` and `-Reset`.
        Ietf = "ietf",
        /// Discord: `X-RateLimit-Limit`, `-Remaining` and `-Reset-After` of a `-Bucket`.
        Discord = "discord",
        /// OpenAI, and the many APIs that copy its headers: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`.
        Openai = "openai",
        /// Anthropic: `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`,
        /// and for windows that are used up `anthropic-ratelimit-unified-{5h,7d}-{utilization,reset}`.
        Anthropic = "anthropic",
        /// GitHub: `x-ratelimit-{limit,remaining,used,reset}` of a `-resource`.
        Github = "github",
        /// Shopify: `throttleStatus` of the body, sent on as `throttle-status`, and `X-Shopify-Shop-Api-Call-Limit`.
        Shopify = "shopify",
        /// All dialects' headers and others, such as `retry-after-ms`. The size of a reset shows if it is a moment.
        #[default]
        Generic = "generic",
        /// HTTP alone: `Retry-After`, which all other dialects have too.
        Plain = "plain",
    }
}

impl Dialect {
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

impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || quoted(Dialect::ALL.map(Dialect::as_str));
        Dialect::named(text).ok_or_else(|| format!("there is no dialect `{text}`; there are {}", known()))
    }
}

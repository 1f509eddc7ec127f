//! The dialects of response headers.

use crate::{
    RetryAfter,
    counter::LimitState,
    preset::form::{self, Form, Group, Template},
    preset::template::{Values, fill},
};
use std::{collections::BTreeMap, fmt, str::FromStr};

pub(crate) type Header = (String, String);

/// How responses state what a call took and what is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Sentinel Hub: what an admitted call took, but not what is left.
    #[default]
    SentinelHub,
    /// The IETF draft: `RateLimit-Policy` and `RateLimit`, with every policy.
    Ietf,
    /// Discord: `X-RateLimit-*` of the route's bucket, and the scope of a rejection.
    Discord,
    /// OpenAI: `x-ratelimit-{limit,remaining,reset}-<unit>`, of a unit's scarcest policy.
    Openai,
    /// Anthropic: `anthropic-ratelimit-<unit>-{limit,remaining,reset}`, and the family `unified`.
    Anthropic,
    /// GitHub: `x-ratelimit-{limit,remaining,used,reset,resource}`.
    Github,
    /// Shopify: `throttleStatus` in the body. In a simulation, and wherever a worker passes it on,
    /// it is the header `throttle-status`.
    Shopify,
    /// `Retry-After` and nothing else.
    Plain,
}

const DIALECTS: [(Dialect, &str, &Form); 8] = [
    (Dialect::SentinelHub, "sentinel-hub", &form::SENTINEL_HUB),
    (Dialect::Ietf, "ietf", &form::IETF),
    (Dialect::Discord, "discord", &form::DISCORD),
    (Dialect::Openai, "openai", &form::OPENAI),
    (Dialect::Anthropic, "anthropic", &form::ANTHROPIC),
    (Dialect::Github, "github", &form::GITHUB),
    (Dialect::Shopify, "shopify", &form::SHOPIFY),
    (Dialect::Plain, "plain", &form::PLAIN),
];

impl Dialect {
    /// Iterates over the names of all dialects.
    pub fn names() -> impl Iterator<Item = &'static str> {
        DIALECTS.iter().map(|(_, name, _)| *name)
    }

    /// The name in presets and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        DIALECTS[self as usize].1
    }

    /// Returns how the dialect's `Retry-After` states a wait.
    #[must_use]
    pub fn retry_after(self) -> RetryAfter {
        self.form().retry_after
    }

    /// Whether the headers are part of the body, and a rejection has status 200.
    pub(crate) fn in_body(self) -> bool {
        self.form().in_body
    }

    /// The headers about the limits that count a call. `values` have no unit of their own.
    pub(crate) fn of_limits(self, standings: &[LimitState<'_>], values: &Values<'_>) -> Vec<Header> {
        let form = self.form();
        let groups = form.limits.iter().flat_map(|group| of_group(group, standings, values));
        let lists = form.lists.iter().filter_map(|list| list_of(list, standings, values));
        groups.chain(lists).collect()
    }

    pub(crate) fn of_admitted(self, values: &Values<'_>) -> Vec<Header> {
        self.form().admitted.iter().filter_map(|template| header(template, values)).collect()
    }

    pub(crate) fn of_refused(self, values: &Values<'_>) -> Vec<Header> {
        self.form().refused.iter().filter_map(|template| header(template, values)).collect()
    }

    fn form(self) -> &'static Form {
        DIALECTS[self as usize].2
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = DIALECTS.iter().find(|(_, known, _)| *known == name).map(|(dialect, ..)| *dialect);
        let known = || Self::names().collect::<Vec<_>>().join(", ");
        named.ok_or_else(|| format!("there is no dialect `{name}`; there are {}", known()))
    }
}

fn of_group(group: &'static Group, standings: &[LimitState<'_>], values: &Values<'_>) -> Vec<Header> {
    let [(first, _), ..] = group.headers else { return Vec::new() };
    let mut scarcest: BTreeMap<String, &LimitState<'_>> = BTreeMap::new();
    for standing in standings.iter().filter(|standing| standing.is_in_family(group.family)) {
        let Some(name) = fill(first, &Values { standing: Some(standing), ..*values }) else { continue };
        let known = scarcest.entry(name).or_insert(standing);
        if standing.level < known.level {
            *known = standing;
        }
    }
    let of_one = |standing: &&LimitState<'_>| {
        let values = Values { standing: Some(*standing), ..*values };
        group.headers.iter().filter_map(|template| header(template, &values)).collect::<Vec<_>>()
    };
    scarcest.values().flat_map(of_one).collect()
}

fn list_of((name, item): &Template, standings: &[LimitState<'_>], values: &Values<'_>) -> Option<Header> {
    let usual = standings.iter().filter(|standing| standing.is_in_family(""));
    let items: Vec<String> =
        usual.filter_map(|standing| fill(item, &Values { standing: Some(standing), ..*values })).collect();
    (!items.is_empty()).then(|| ((*name).to_owned(), items.join(", ")))
}

fn header((name, value): &Template, values: &Values<'_>) -> Option<Header> {
    Some((fill(name, values)?, fill(value, values)?))
}

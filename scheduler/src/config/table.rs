//! The configuration file as it is written. Unknown keys are errors.

use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use toml::Spanned;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTable {
    #[serde(default)]
    pub nats: NatsTable,
    #[serde(default)]
    pub http: HttpTable,
    #[serde(default)]
    pub resource: Vec<Spanned<ResourceTable>>,
}

/// `[nats]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NatsTable {
    /// Where the server is.
    pub url: String,
    /// File with the credentials (JWT and seed), if the server wants some.
    pub credentials_file: Option<String>,
    /// First token of all subjects, and name of the KV bucket.
    pub prefix: Name,
    /// Replicas of the KV bucket: 1, 3 or 5.
    #[serde(deserialize_with = "replicas")]
    pub replicas: usize,
}

impl Default for NatsTable {
    fn default() -> Self {
        NatsTable {
            url: "nats://127.0.0.1:4222".to_owned(),
            credentials_file: None,
            prefix: Subjects::default().prefix().clone(),
            replicas: 1,
        }
    }
}

/// A Raft group has an odd number of members, and `JetStream` at most five.
fn replicas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let replicas = usize::deserialize(deserializer)?;
    match replicas {
        1 | 3 | 5 => Ok(replicas),
        other => Err(serde::de::Error::custom(format!("there can be 1, 3 or 5 replicas, not {other}"))),
    }
}

/// `[http]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpTable {
    /// Where health and metrics are served.
    pub listen: String,
}

impl Default for HttpTable {
    fn default() -> Self {
        HttpTable { listen: "127.0.0.1:9480".to_owned() }
    }
}

/// `[[resource]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceTable {
    pub name: Spanned<String>,
    pub unmatched: Option<Unmatched>,
    pub start: Option<StartTable>,
    pub dialect: Option<Dialect>,
    pub fair_share: Option<Spanned<String>>,
    #[serde(default)]
    pub weights: BTreeMap<String, Spanned<f64>>,
    pub default_class: Option<Spanned<String>>,
    #[serde(default)]
    pub classes: Vec<Spanned<ClassTable>>,
    pub horizon: Option<Spanned<String>>,
    pub max_waiting: Option<Spanned<usize>>,
    pub max_permits: Option<Spanned<usize>>,
    #[serde(default)]
    pub limit: Vec<Spanned<LimitTable>>,
}

/// What happens to requests that no limit matches. Every limit matches all requests so far, so
/// that neither makes a difference.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Unmatched {
    Allow,
    Refuse,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StartTable {
    Full,
    Empty,
}

/// How to read the upstream's headers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Dialect {
    SentinelHub,
    Ietf,
    Discord,
    Openai,
    Anthropic,
    Github,
    Plain,
}

/// An element of `classes`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassTable {
    pub name: Spanned<String>,
    pub headroom: Option<Spanned<f64>>,
    pub max_starvation: Option<Spanned<String>>,
}

/// `[[resource.limit]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitTable {
    pub name: Spanned<String>,
    pub unit: Option<Spanned<String>>,
    pub algorithm: Option<Spanned<String>>,
    pub capacity: Spanned<f64>,
    pub period: Option<Spanned<String>>,
    pub refill_interval: Option<Spanned<String>>,
    pub margin: Option<Spanned<MarginTable>>,
}

/// `"auto"` or a number of tokens.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a margin is \"auto\" or a number of tokens")]
pub(super) enum MarginTable {
    Tokens(f64),
    Word(String),
}

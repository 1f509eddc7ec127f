//! The configuration file as it is written. Unknown keys are errors.

use super::http::HttpTable;
use super::provider::ProviderTable;
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
    /// Where the server is, or several of a cluster; also as whom to connect.
    pub url: String,
    /// File with the credentials (JWT and seed), if the server wants some.
    pub credentials_file: Option<String>,
    /// First token of all subjects, and name of the KV bucket.
    pub prefix: Name,
    /// First token of the subjects that answers come to.
    pub inbox_prefix: Name,
    /// Replicas of the KV bucket: 1, 3 or 5.
    #[serde(deserialize_with = "replicas")]
    pub replicas: usize,
}

impl NatsTable {
    /// The defaults with the server at `url`.
    #[must_use]
    pub fn at(url: &str) -> Self {
        NatsTable { url: url.to_owned(), ..NatsTable::default() }
    }
}

impl Default for NatsTable {
    fn default() -> Self {
        NatsTable {
            url: "nats://127.0.0.1:4222".to_owned(),
            credentials_file: None,
            prefix: Subjects::default().prefix().clone(),
            inbox_prefix: Name::new("_INBOX").expect("a valid name"),
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

/// `[[resource]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceTable {
    pub name: Spanned<String>,
    pub unmatched: Option<UnmatchedTable>,
    pub start: Option<StartTable>,
    pub dialect: Option<Spanned<String>>,
    pub retry_after_unit: Option<Spanned<String>>,
    pub fair_share: Option<Spanned<String>>,
    #[serde(default)]
    pub weights: BTreeMap<String, Spanned<f64>>,
    pub default_class: Option<Spanned<String>>,
    #[serde(default)]
    pub classes: Vec<Spanned<ClassTable>>,
    pub horizon: Option<Spanned<String>>,
    pub reservation: Option<Spanned<String>>,
    pub on_kv_loss: Option<OnKvLoss>,
    pub ride_for: Option<Spanned<String>>,
    pub validity: Option<Spanned<String>>,
    pub max_waiting: Option<Spanned<usize>>,
    pub max_permits: Option<Spanned<usize>>,
    pub max_keys: Option<Spanned<usize>>,
    #[serde(default)]
    pub learn_costs: Vec<Spanned<String>>,
    pub provider: Option<Spanned<ProviderTable>>,
    #[serde(default)]
    pub limit: Vec<Spanned<LimitTable>>,
}

/// What happens to requests that no limit is for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum UnmatchedTable {
    Allow,
    Refuse,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StartTable {
    Full,
    Unproven,
    Empty,
}

/// What to do when the KV store does not answer.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OnKvLoss {
    Hold,
    Ride,
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
#[serde(deny_unknown_fields, expecting = "a limit")]
pub(super) struct LimitTable {
    pub name: Spanned<String>,
    pub unit: Option<Spanned<String>>,
    pub algorithm: Option<Spanned<String>>,
    #[serde(alias = "limit")]
    pub capacity: Spanned<f64>,
    pub period: Option<Spanned<String>>,
    pub refill_interval: Option<Spanned<String>>,
    pub drain_velocity: Option<Spanned<f64>>,
    pub aligned: Option<Spanned<String>>,
    pub zone: Option<Spanned<String>>,
    pub resets: Option<Spanned<String>>,
    pub time_to_live: Option<Spanned<String>>,
    pub margin: Option<Spanned<MarginTable>>,
    pub learn: Option<bool>,
    pub floor: Option<Spanned<f64>>,
    #[serde(rename = "match", default)]
    pub matching: BTreeMap<Spanned<String>, Spanned<PatternTable>>,
    #[serde(default)]
    pub key: Vec<Spanned<String>>,
    pub group: Option<Spanned<String>>,
    pub shadow: Option<bool>,
}

/// `"exact"`, `"prefix*"`, `"^regular expression"`, or a list of exact values.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a label is matched with a value, a \"prefix*\", a \"^regular expression\" or a list of values"
)]
pub(super) enum PatternTable {
    Value(String),
    OneOf(Vec<String>),
}

/// `"auto"` or a number of tokens.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a margin is \"auto\" or a number of tokens")]
pub(super) enum MarginTable {
    Tokens(f64),
    Word(String),
}

//! What is served over HTTP, as it is written.

use super::http_settings::{CheckSettings, HttpSettings, LabelSource, OnUnavailable};
use super::keys::keys;
use super::place::{ConfigError, Source};
use super::provider::variable;
use super::range::within;
use super::value::name;
use crate::provider::SecretPlace;
use axum::http::HeaderName;
use ipnet::IpNet;
use rampmeter_protocol::bounds::{MAX_LABEL_KEY, MAX_LABELS};
use rampmeter_protocol::time::Span;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use toml::Spanned;

/// What is held back for less is not held back, and proxies wait for a minute themselves.
const THROTTLE: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(60);
/// One is needed to ask for health; beyond the ports of an address lies nothing.
const MAX_CONNECTIONS: RangeInclusive<usize> = 1..=65_535;

keys! {
    /// `[http]`
    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct HttpTable {
        /// The address of /healthz, /readyz, /metrics and the front; "" serves nothing over HTTP.
        /// Also: `--listen`, `RAMPMETER_LISTEN`.
        listen: Option<String> = Default(r#""127.0.0.1:9480""#),
        /// Whether clients without NATS get permits here: /v1/permit, /v1/settle.
        /// false leaves health and metrics.
        front: Option<bool> = Default("true"),
        /// The environment variable with the token that clients of the front show
        /// (Authorization: Bearer ...), 16 bytes or more. An address beyond loopback needs a token.
        token_env: Option<Spanned<String>> = Example(r#""RAMPMETER_TOKEN""#),
        /// The file with that token, in place of the variable.
        token_file: Option<Spanned<String>> = Example(r#""/run/secrets/rampmeter-token""#),
        /// How many connections are open at once. Beyond it, idle and slow ones are closed.
        max_connections: Option<Spanned<usize>> = Default("4096"),
        /// What reverse proxies ask.
        check: Option<Spanned<CheckTable>> = Table,
    }
}

keys! {
    /// `[http.check]`
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct CheckTable {
        /// The resource that is asked. A request costs one of "requests".
        resource: Spanned<String> = Given(r#""my-api""#),
        /// The class of the requests. Without this: the default class of the resource.
        class: Option<Spanned<String>> = Example(r#""standard""#),
        /// How long an answer is held back before it is a 429. Without this, not at all.
        throttle: Option<Spanned<String>> = Example(r#""2s""#),
        /// What is answered when no scheduler is there: "refuse" is 503, "allow" lets all through.
        on_unavailable: Option<OnUnavailableTable> = Default(r#""refuse""#),
        /// The proxies whose X-Original-URI, X-Forwarded-For and the like are believed.
        /// Without this, none.
        #[serde(default)]
        trusted_proxies: Vec<Spanned<String>> = Example(r#"["127.0.0.1/32"]"#),
        /// The labels, and where each comes from: "header:NAME", "path", "method", "client-address".
        #[serde(default)]
        labels: BTreeMap<Spanned<String>, Spanned<String>> =
            Example(r#"{ client = "header:x-api-key", route = "path" }"#),
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OnUnavailableTable {
    Refuse,
    Allow,
}

/// What `table` says is to be served.
pub(super) fn settings(source: &Source, table: &HttpTable) -> Result<HttpSettings, ConfigError> {
    let defaults = HttpSettings::default();
    let front = table.front.unwrap_or(defaults.front);
    if let (false, Some(check)) = (front, &table.check) {
        return Err(source.fault(&check.span(), "`[http.check]` is part of the front; leave out `front = false`"));
    }
    Ok(HttpSettings {
        listen: table.listen.clone().unwrap_or(defaults.listen),
        front,
        token: token(source, table)?,
        max_connections: max_connections(source, table)?.unwrap_or(defaults.max_connections),
        check: table.check.as_ref().map(|check| check_settings(source, check.get_ref())).transpose()?,
    })
}

fn token(source: &Source, table: &HttpTable) -> Result<Option<SecretPlace>, ConfigError> {
    match (&table.token_env, &table.token_file) {
        (Some(_), Some(file)) => Err(source.fault(&file.span(), "give `token_env` or `token_file`, not both")),
        (Some(name), None) => Ok(Some(SecretPlace::Env(variable(source, name)?))),
        (None, Some(file)) => Ok(Some(SecretPlace::File(file.get_ref().into()))),
        (None, None) => Ok(None),
    }
}

fn max_connections(source: &Source, table: &HttpTable) -> Result<Option<usize>, ConfigError> {
    let Some(most) = &table.max_connections else { return Ok(None) };
    if MAX_CONNECTIONS.contains(most.get_ref()) {
        return Ok(Some(*most.get_ref()));
    }
    let (from, to) = (MAX_CONNECTIONS.start(), MAX_CONNECTIONS.end());
    Err(source.fault(&most.span(), format!("this is from {from} to {to}, not {}", most.get_ref())))
}

fn check_settings(source: &Source, table: &CheckTable) -> Result<CheckSettings, ConfigError> {
    Ok(CheckSettings {
        resource: name(source, &table.resource)?,
        class: table.class.as_ref().map(|class| name(source, class)).transpose()?,
        throttle: within(source, table.throttle.as_ref(), &THROTTLE)?,
        on_unavailable: match table.on_unavailable {
            Some(OnUnavailableTable::Allow) => OnUnavailable::Allow,
            Some(OnUnavailableTable::Refuse) | None => OnUnavailable::Refuse,
        },
        trusted_proxies: table.trusted_proxies.iter().map(|net| network(source, net)).collect::<Result<_, _>>()?,
        labels: labels(source, &table.labels)?,
    })
}

/// An address alone is a network of one.
fn network(source: &Source, text: &Spanned<String>) -> Result<IpNet, ConfigError> {
    let parsed =
        text.get_ref().parse().or_else(|_| text.get_ref().parse().map(IpNet::from as fn(std::net::IpAddr) -> _));
    parsed.map_err(|_| source.fault(&text.span(), "a network is written like \"127.0.0.1/32\" or \"fd00::/8\""))
}

fn labels(
    source: &Source,
    table: &BTreeMap<Spanned<String>, Spanned<String>>,
) -> Result<Vec<(String, LabelSource)>, ConfigError> {
    if let Some(beyond) = table.keys().nth(MAX_LABELS) {
        return Err(source.fault(&beyond.span(), format!("at most {MAX_LABELS} labels")));
    }
    table.iter().map(|(key, from)| Ok((label_key(source, key)?, label_source(source, from)?))).collect()
}

fn label_key(source: &Source, key: &Spanned<String>) -> Result<String, ConfigError> {
    match (1..=MAX_LABEL_KEY).contains(&key.get_ref().chars().count()) {
        true => Ok(key.get_ref().clone()),
        false => Err(source.fault(&key.span(), format!("a label's key has 1 to {MAX_LABEL_KEY} characters"))),
    }
}

fn label_source(source: &Source, text: &Spanned<String>) -> Result<LabelSource, ConfigError> {
    let header = text.get_ref().strip_prefix("header:").and_then(|name| name.parse::<HeaderName>().ok());
    match (text.get_ref().as_str(), header) {
        (_, Some(name)) => Ok(LabelSource::Header(name)),
        ("path", None) => Ok(LabelSource::Path),
        ("method", None) => Ok(LabelSource::Method),
        ("client-address", None) => Ok(LabelSource::ClientAddress),
        (_, None) => Err(source
            .fault(&text.span(), "a label comes from \"header:NAME\", \"path\", \"method\" or \"client-address\"")),
    }
}

//! What is served over HTTP, as it is written.

use super::http_settings::{CheckSettings, HttpSettings, LabelSource, OnUnavailable};
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

/// `[http]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpTable {
    listen: Option<String>,
    front: Option<bool>,
    token_env: Option<Spanned<String>>,
    token_file: Option<Spanned<String>>,
    max_connections: Option<Spanned<usize>>,
    check: Option<Spanned<CheckTable>>,
}

/// `[http.check]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckTable {
    resource: Spanned<String>,
    class: Option<Spanned<String>>,
    throttle: Option<Spanned<String>>,
    on_unavailable: Option<OnUnavailableTable>,
    #[serde(default)]
    trusted_proxies: Vec<Spanned<String>>,
    #[serde(default)]
    labels: BTreeMap<Spanned<String>, Spanned<String>>,
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

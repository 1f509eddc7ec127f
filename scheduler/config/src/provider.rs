//! The provider of a resource's limits, in the file.

use super::keys::{keys, words};
use super::reading::source::{ConfigError, Source};
use super::reading::value::within;
use http::Uri;
use rampmeter_account::matching::refill_of;
use rampmeter_account::sentinel_hub::{self, Credentials};
use rampmeter_account::{Contract, Kind, ProvidedLimit, ProviderSettings, SecretSource};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::policy::spec::LimitSpec;
use serde::Deserialize;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use toml::Spanned;

/// Contracts change a few times a year. After an upgrade, the new limits should count soon.
const DEFAULT_CONTRACT_EVERY: Span = Span::from_secs(300);
/// Far longer than an answer takes, and short beside the interval of questions.
const DEFAULT_TIMEOUT: Span = Span::from_secs(10);
/// Shorter intervals are a load on the provider, and longer ones miss changes for too long.
const EVERY: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(86_400);
/// No answer over TLS comes sooner, and a later one hardly ever comes.
const TIMEOUT: RangeInclusive<Span> = Span::from_millis(100)..=Span::from_secs(60);

keys! {
    /// `provider = { kind = "…", … }`
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct ProviderTable {
        /// The kind of service: "sentinel-hub", also for Copernicus; "static" is this file.
        kind: Spanned<KindTable> = Given(r#""sentinel-hub""#),
        /// The service.
        base_url: Option<Spanned<String>> = Given(r#""https://services.sentinel-hub.com""#),
        /// The endpoint that gives out access tokens.
        token_url: Option<Spanned<String>> =
            Given(r#""https://services.sentinel-hub.com/auth/realms/main/protocol/openid-connect/token""#),
        /// The environment variable with the client's id.
        client_id_env: Option<Spanned<String>> = Given(r#""SH_CLIENT_ID""#),
        /// The environment variable with the client's secret.
        client_secret_env: Option<Spanned<String>> = Given(r#""SH_CLIENT_SECRET""#),
        /// The file with that secret, in place of the variable.
        client_secret_file: Option<Spanned<String>> = Example(r#""/run/secrets/sh-client-secret""#),
        /// How often the service is asked for the limits.
        contract_every: Option<Spanned<String>> = Default(r#""5m""#),
        /// How often it is asked for their levels. Without this, never.
        levels_every: Option<Spanned<String>> = Example(r#""60s""#),
        /// How long an answer may take.
        timeout: Option<Spanned<String>> = Default(r#""10s""#),
        /// The resource whose permits requests for access tokens take: their endpoint has a limit
        /// of its own. Without this, they take none.
        token_resource: Option<Spanned<Name>> = Example(r#""sentinel-hub-token""#),
        /// Whether workers whose NATS user may publish rampmeter.token.NAME get the access token.
        share_token: Option<Spanned<bool>> = Default("false"),
        /// Whether http:// to other hosts than this one is allowed. It shows the secret
        /// to every listener on the network.
        allow_http: Option<Spanned<bool>> = Default("false"),
    }
}

words! {
    /// The kind of a provider.
    enum KindTable { Static, SentinelHub }
}

/// The provider of `table`, for a resource with these `limits` in the file.
pub(super) fn settings(
    source: &Source,
    table: &ProviderTable,
    limits: &[LimitSpec],
) -> Result<ProviderSettings, ConfigError> {
    let kind = match table.kind.get_ref() {
        KindTable::Static => Kind::Static(contract(source, table, limits)?),
        KindTable::SentinelHub => Kind::SentinelHub(sentinel_hub(source, table)?),
    };
    let contract_every = within(source, table.contract_every.as_ref(), &EVERY)?.unwrap_or(DEFAULT_CONTRACT_EVERY);
    let levels_every = within(source, table.levels_every.as_ref(), &EVERY)?;
    Ok(ProviderSettings { kind, contract_every, levels_every })
}

/// The limits of the file as a contract. Keys of other kinds are refused.
fn contract(source: &Source, table: &ProviderTable, limits: &[LimitSpec]) -> Result<Contract, ConfigError> {
    let ProviderTable { kind, base_url, token_url, client_id_env, client_secret_env, client_secret_file, .. } = table;
    let ProviderTable { contract_every, levels_every, timeout, allow_http, token_resource, share_token, .. } = table;
    let texts = [
        base_url,
        token_url,
        client_id_env,
        client_secret_env,
        client_secret_file,
        contract_every,
        levels_every,
        timeout,
    ];
    let words = [allow_http, share_token].into_iter().flatten().map(Spanned::span);
    let spans = texts.into_iter().flatten().map(Spanned::span).chain(words);
    let spans = spans.chain(token_resource.iter().map(Spanned::span));
    if let Some(span) = spans.min_by_key(|span| span.start) {
        return Err(
            source.fault(&span, "`kind = \"static\"` means the limits of this file; leave out the keys of a service")
        );
    }
    if limits.is_empty() {
        return Err(source.fault(&kind.span(), "`kind = \"static\"` needs limits in this file: [[resource.limit]]"));
    }
    let limits = limits.iter().map(|limit| ProvidedLimit {
        unit: limit.unit.clone(),
        capacity: limit.capacity,
        period: refill_of(limit),
    });
    Ok(Contract { limits: limits.collect(), notes: Vec::new() })
}

fn sentinel_hub(source: &Source, table: &ProviderTable) -> Result<sentinel_hub::SentinelHubSettings, ConfigError> {
    let allow_http = table.allow_http.as_ref().is_some_and(|allow| *allow.get_ref());
    let base_url = needed(source, table, "base_url", table.base_url.as_ref())?;
    let token_url = needed(source, table, "token_url", table.token_url.as_ref())?;
    let client_id = needed(source, table, "client_id_env", table.client_id_env.as_ref())?;
    url(source, base_url, allow_http)?;
    let credentials = Credentials {
        token_url: url(source, token_url, allow_http)?,
        client_id: SecretSource::Env(variable(source, client_id)?),
        client_secret: client_secret(source, table)?,
    };
    let timeout = within(source, table.timeout.as_ref(), &TIMEOUT)?.unwrap_or(DEFAULT_TIMEOUT);
    let base_url = base_url.get_ref().trim_end_matches('/').to_owned();
    let token_resource = table.token_resource.as_ref().map(|name| name.get_ref().clone());
    let share_token = table.share_token.as_ref().is_some_and(|share| *share.get_ref());
    Ok(sentinel_hub::SentinelHubSettings { base_url, credentials, timeout, token_resource, share_token })
}

fn needed<'a>(
    source: &Source,
    table: &ProviderTable,
    key: &str,
    value: Option<&'a Spanned<String>>,
) -> Result<&'a Spanned<String>, ConfigError> {
    let reason = || format!("a provider of this kind needs `{key}`");
    value.ok_or_else(|| source.fault(&table.kind.span(), reason()))
}

fn client_secret(source: &Source, table: &ProviderTable) -> Result<SecretSource, ConfigError> {
    match (&table.client_secret_env, &table.client_secret_file) {
        (Some(name), None) => Ok(SecretSource::Env(variable(source, name)?)),
        (None, Some(path)) => Ok(SecretSource::File(path.get_ref().into())),
        (Some(_), Some(path)) => {
            Err(source.fault(&path.span(), "give `client_secret_env` or `client_secret_file`, not both"))
        }
        (None, None) => {
            let reason = "a provider of this kind needs `client_secret_env` or `client_secret_file`";
            Err(source.fault(&table.kind.span(), reason))
        }
    }
}

/// The name of an environment variable. The error does not show the text, since it may be the
/// secret itself.
pub(super) fn variable(source: &Source, name: &Spanned<String>) -> Result<String, ConfigError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let text = name.get_ref();
    if text.is_empty() || !text.bytes().all(is_name) || text.starts_with(|first: char| first.is_ascii_digit()) {
        let reason = "this is the name of an environment variable, of [A-Za-z0-9_], not its value";
        return Err(source.fault(&name.span(), reason));
    }
    Ok(text.clone())
}

/// A URL without secrets, since logs show it.
pub(super) fn url(source: &Source, text: &Spanned<String>, allow_http: bool) -> Result<Uri, ConfigError> {
    let fault = |reason: &str| source.fault(&text.span(), reason);
    let uri: Uri = text.get_ref().parse().map_err(|_| fault("a URL is written like \"https://host/path\""))?;
    let authority = uri.authority().ok_or_else(|| fault("a URL is written like \"https://host/path\""))?;
    if authority.as_str().contains('@') || uri.query().is_some() || text.get_ref().contains('#') {
        return Err(fault("the URL has neither a user nor a query: it is shown in logs"));
    }
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if allow_http || is_loopback(authority.host()) => Ok(uri),
        Some("http") => Err(fault(
            "client id, secret and token would go over the network for all to read; use https://, or say \
             `allow_http = true` where the network is private",
        )),
        Some(_) | None => Err(fault("a URL is written like \"https://host/path\"")),
    }
}

/// Whether `host`, as a URL has it, is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

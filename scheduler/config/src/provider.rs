//! The provider of a resource's limits, in the file.

use super::keys::{keys, value, words};
use super::reading::source::{ConfigError, Source};
use super::reading::value::Duration;
use http::Uri;
use rampmeter_account::{Credentials, ProviderSettings, SecretSource};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use serde::Deserialize;
use std::net::IpAddr;
use toml::Spanned;

/// Contracts change a few times a year. After an upgrade, the new limits should count soon.
const DEFAULT_CONTRACT_EVERY: Span = Span::from_secs(300);
/// Far longer than an answer takes, and short beside the interval of questions.
const DEFAULT_TIMEOUT: Span = Span::from_secs(10);
/// Shorter intervals are a load on the provider, and longer ones miss changes for too long.
type Every = Duration<1000, 86_400_000>;
/// No answer over TLS comes sooner, and a later one hardly ever comes.
type Timeout = Duration<100, 60_000>;
pub(super) const NO_SECRET: &str = "a client needs `client_secret_env` or `client_secret_file`";

keys! {
    /// `[resource.provider]`
    ///
    /// The limits, as a service of the upstream tells them. Limits below of the same unit and period are
    /// compared with it. Without any below, all come from there, and nothing is granted before they are
    /// known.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct ProviderTable {
        /// The kind of service: "sentinel-hub", also for Copernicus.
        kind: KindTable = Given(r#""sentinel-hub""#),
        /// The service.
        base_url: Spanned<String> = Given(r#""https://services.sentinel-hub.com""#),
        /// The endpoint that gives out access tokens.
        token_url: Spanned<String> =
            Given(r#""https://services.sentinel-hub.com/auth/realms/main/protocol/openid-connect/token""#),
        /// The environment variable with the client's id.
        client_id_env: Spanned<String> = Given(r#""SH_CLIENT_ID""#),
        /// The environment variable with the client's secret.
        client_secret_env: Option<Spanned<String>> = Given(r#""SH_CLIENT_SECRET""#),
        /// The file with that secret, in place of the variable.
        client_secret_file: Option<Spanned<String>> = Example(r#""/run/secrets/sh-client-secret""#),
        /// How often the service is asked for the limits.
        contract_every: Option<Spanned<Every>> = Default(r#""5m""#),
        /// How often it is asked for their levels. Without this, never.
        levels_every: Option<Spanned<Every>> = Example(r#""60s""#),
        /// How long an answer may take.
        timeout: Option<Spanned<Timeout>> = Default(r#""10s""#),
        /// The resource whose permits requests for access tokens take: their endpoint has a limit
        /// of its own. Without this, they take none.
        token_resource: Option<Name> = Example(r#""sentinel-hub-token""#),
        /// Whether workers whose NATS user may publish rampmeter.token.NAME get the access token.
        share_token: Option<bool> = Default("false"),
        /// Whether http:// to other hosts than this one is allowed. It shows the secret
        /// to every listener on the network.
        allow_http: Option<bool> = Default("false"),
    }
}

words! {
    /// The kind of a provider.
    enum KindTable { SentinelHub }
}

pub(super) fn settings(source: &Source, table: &Spanned<ProviderTable>) -> Result<ProviderSettings, ConfigError> {
    let (span, table) = (table.span(), table.get_ref());
    let ProviderTable { kind: KindTable::SentinelHub, base_url, token_url, client_id_env, .. } = table;
    let allow_http = table.allow_http.unwrap_or_default();
    url(source, base_url, allow_http)?;
    let client_secret =
        secret(source, "client_secret", table.client_secret_env.as_ref(), table.client_secret_file.as_ref())?;
    let credentials = Credentials {
        token_url: url(source, token_url, allow_http)?,
        client_id: SecretSource::Env(variable(source, client_id_env)?),
        client_secret: client_secret.ok_or_else(|| source.fault(&span, NO_SECRET))?,
    };
    Ok(ProviderSettings {
        base_url: base_url.get_ref().trim_end_matches('/').to_owned(),
        credentials,
        timeout: table.timeout.as_ref().map_or(DEFAULT_TIMEOUT, value),
        contract_every: table.contract_every.as_ref().map_or(DEFAULT_CONTRACT_EVERY, value),
        levels_every: table.levels_every.as_ref().map(value),
        token_resource: table.token_resource.clone(),
        share_token: table.share_token.unwrap_or_default(),
    })
}

/// Returns the secret of the keys `KEY_env` or `KEY_file`; `None` if neither is given.
pub(super) fn secret(
    source: &Source,
    key: &str,
    env: Option<&Spanned<String>>,
    file: Option<&Spanned<String>>,
) -> Result<Option<SecretSource>, ConfigError> {
    match (env, file) {
        (Some(_), Some(file)) => Err(source.fault(&file.span(), format!("give `{key}_env` or `{key}_file`, not both"))),
        (Some(name), None) => Ok(Some(SecretSource::Env(variable(source, name)?))),
        (None, Some(path)) => Ok(Some(SecretSource::File(path.get_ref().into()))),
        (None, None) => Ok(None),
    }
}

/// Checks the name of an environment variable. The error omits it: it may be the secret itself.
pub(super) fn variable(source: &Source, name: &Spanned<String>) -> Result<String, ConfigError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let text = name.get_ref();
    if text.is_empty() || !text.bytes().all(is_name) || text.starts_with(|first: char| first.is_ascii_digit()) {
        let reason = "this is the name of an environment variable, of [A-Za-z0-9_], not its value";
        return Err(source.fault(&name.span(), reason));
    }
    Ok(text.clone())
}

/// Parses a URL, which may contain no secrets, as logs show it.
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

/// Whether `host`, as in a URL, is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

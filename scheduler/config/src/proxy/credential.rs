//! `[proxy.credential]` of the file.

use crate::keys::keys;
use crate::provider::{NO_SECRET, secret, url, variable};
use crate::reading::source::{ConfigError, Source};
use axum::http::HeaderName;
use axum::http::header::AUTHORIZATION;
use rampmeter_account::{Credentials, SecretSource};
use rampmeter_protocol::time::Span;
use serde::Deserialize;
use toml::Spanned;

/// How long a token endpoint may take to answer: short beside the life of a token.
const TOKEN_TIMEOUT: Span = Span::from_secs(10);
const BEARER: &str = "Bearer";

keys! {
    /// `[proxy.credential]`
    ///
    /// The secret that the proxy above shows to the upstream, so that its clients need none. Every client
    /// that reaches the proxy then calls the upstream in its name.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct CredentialTable {
        /// The header that the upstream sees, in place of what clients send in it.
        header: Option<Spanned<String>> = Default(r#""authorization""#),
        /// The word in front of the secret. Without this: "Bearer" in `authorization`, and none
        /// in other headers.
        scheme: Option<Spanned<String>> = Example(r#""Bot""#),
        /// The environment variable with the secret.
        secret_env: Option<Spanned<String>> = Given(r#""API_KEY""#),
        /// The file with the secret, in place of the variable. It is read again when it changes.
        secret_file: Option<Spanned<String>> = Example(r#""/run/secrets/api-key""#),
        /// The endpoint that gives out access tokens for client credentials, as Sentinel Hub's, in
        /// place of a secret. The secret may be in a file, too: `client_secret_file`.
        oauth: Option<Spanned<OAuthTable>> =
            Example(r#"{ token_url = "https://a/token", client_id_env = "ID", client_secret_env = "SECRET" }"#),
        /// Whether the access token is the one of the resource's provider, in place of a secret. It
        /// has to say `share_token = true`.
        shared_token: Option<Spanned<bool>> = Default("false"),
        /// Whether an upstream at http:// on another host may see the secret. So does every
        /// listener on the network.
        allow_http: Option<bool> = Default("false"),
    }
}

/// `oauth = { … }`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OAuthTable {
    token_url: Spanned<String>,
    client_id_env: Spanned<String>,
    client_secret_env: Option<Spanned<String>>,
    client_secret_file: Option<Spanned<String>>,
}

/// `[proxy.credential]`, checked.
#[derive(Clone, Debug)]
pub struct CredentialSettings {
    /// The header that the upstream receives.
    pub header: HeaderName,
    /// The word before the secret.
    pub scheme: Option<String>,
    /// Where the secret comes from.
    pub from: CredentialFrom,
    /// Whether the upstream may be reached without encryption.
    pub allow_http: bool,
}

/// The source of a secret.
#[derive(Clone, Debug)]
pub enum CredentialFrom {
    /// A secret kept on this machine.
    Secret(SecretSource),
    /// A token endpoint.
    OAuth {
        /// The credentials for the endpoint.
        credentials: Credentials,
        /// How long an answer of the endpoint may take.
        timeout: Span,
    },
    /// The resource's provider, which shares its token.
    Scheduler,
}

pub(crate) fn settings(source: &Source, table: &Spanned<CredentialTable>) -> Result<CredentialSettings, ConfigError> {
    let from = from(source, table)?;
    let table = table.get_ref();
    let header = match &table.header {
        Some(name) => name.get_ref().parse().map_err(|_| source.fault(&name.span(), "this is the name of a header"))?,
        None => AUTHORIZATION,
    };
    let scheme = table.scheme.as_ref().map(|scheme| word(source, scheme)).transpose()?;
    let scheme = scheme.or_else(|| (header == AUTHORIZATION).then(|| BEARER.to_owned()));
    Ok(CredentialSettings { header, scheme, from, allow_http: table.allow_http.unwrap_or_default() })
}

fn from(source: &Source, table: &Spanned<CredentialTable>) -> Result<CredentialFrom, ConfigError> {
    let CredentialTable { secret_env, secret_file, oauth, shared_token, allow_http, .. } = table.get_ref();
    let shared = shared_token.as_ref().filter(|shared| *shared.get_ref());
    match (secret_env, secret_file, oauth, shared) {
        (Some(name), None, None, None) => Ok(CredentialFrom::Secret(SecretSource::Env(variable(source, name)?))),
        (None, Some(path), None, None) => Ok(CredentialFrom::Secret(SecretSource::File(path.get_ref().into()))),
        (None, None, Some(oauth), None) => Ok(CredentialFrom::OAuth {
            credentials: credentials(source, oauth, allow_http.unwrap_or_default())?,
            timeout: TOKEN_TIMEOUT,
        }),
        (None, None, None, Some(_)) => Ok(CredentialFrom::Scheduler),
        _ => Err(source.fault(&table.span(), "give one of `secret_env`, `secret_file`, `oauth` and `shared_token`")),
    }
}

fn credentials(source: &Source, table: &Spanned<OAuthTable>, allow_http: bool) -> Result<Credentials, ConfigError> {
    let (span, table) = (table.span(), table.get_ref());
    let OAuthTable { token_url, client_id_env, client_secret_env, client_secret_file } = table;
    let client_secret = secret(source, "client_secret", client_secret_env.as_ref(), client_secret_file.as_ref())?;
    Ok(Credentials {
        token_url: url(source, token_url, allow_http)?,
        client_id: SecretSource::Env(variable(source, client_id_env)?),
        client_secret: client_secret.ok_or_else(|| source.fault(&span, NO_SECRET))?,
    })
}

fn word(source: &Source, text: &Spanned<String>) -> Result<String, ConfigError> {
    let is_word = !text.get_ref().is_empty() && text.get_ref().bytes().all(|byte| byte.is_ascii_graphic());
    match is_word {
        true => Ok(text.get_ref().clone()),
        false => Err(source.fault(&text.span(), "a scheme is one word like \"Bearer\"")),
    }
}

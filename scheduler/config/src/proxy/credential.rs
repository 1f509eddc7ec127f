//! `[proxy.credential]` of the file.

use crate::keys::keys;
use crate::provider::{NO_SECRET, secret, url, variable};
use crate::reading::source::{ConfigError, Source};
use axum::http::HeaderName;
use axum::http::header::AUTHORIZATION;
use rampmeter_account::{Credentials, SecretSource};
use rampmeter_protocol::time::Span;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use toml::Spanned;

/// How long a token endpoint may take to answer: short beside the life of a token.
const TOKEN_TIMEOUT: Span = Span::from_secs(10);
const BEARER: &str = "Bearer";

keys! {
    /// `[proxy.credential]`
    ///
    /// The secret that the proxy above shows to the upstream, so that its clients need none. Every client
    /// that reaches the proxy then calls the upstream in its name. If the resource has accounts, each has a
    /// table of its own, such as [proxy.credential.team-a].
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a credential, or one for each account: [proxy.credential.ACCOUNT]")]
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

/// `[proxy.credential]` and the `[proxy.credential.ACCOUNT]` in it.
#[derive(Debug)]
pub(crate) struct CredentialTables {
    /// The credential of calls that no other one is for.
    common: Option<CredentialTable>,
    by_account: BTreeMap<String, Spanned<CredentialTable>>,
}

impl<'de> Deserialize<'de> for CredentialTables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TablesVisitor)
    }
}

struct TablesVisitor;

impl<'de> Visitor<'de> for TablesVisitor {
    type Value = CredentialTables;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a credential")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CredentialTables, A::Error> {
        let mut split = WithoutAccounts { map, by_account: BTreeMap::new(), has_keys: false };
        let common = CredentialTable::deserialize(MapAccessDeserializer::new(&mut split))?;
        let is_common = split.has_keys || split.by_account.is_empty();
        Ok(CredentialTables { common: is_common.then_some(common), by_account: split.by_account })
    }
}

/// The keys of a credential. What has another name is the table of an account, and set apart.
struct WithoutAccounts<A> {
    map: A,
    by_account: BTreeMap<String, Spanned<CredentialTable>>,
    has_keys: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for &mut WithoutAccounts<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if CredentialTable::TABLE.keys.iter().any(|known| known.name() == key) {
                self.has_keys = true;
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            let own = self.map.next_value()?;
            self.by_account.insert(key, own);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
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

/// `[proxy.credential]`, checked, with those of accounts.
#[derive(Clone, Debug, Default)]
pub struct CredentialsSettings {
    /// The credential of all other calls.
    pub common: Option<CredentialSettings>,
    /// The credentials of accounts, by name.
    pub by_account: BTreeMap<String, CredentialSettings>,
}

impl CredentialsSettings {
    /// Iterates over all of them.
    pub fn all(&self) -> impl Iterator<Item = &CredentialSettings> {
        self.common.iter().chain(self.by_account.values())
    }
}

/// A credential, checked.
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

pub(crate) fn settings(
    source: &Source,
    tables: Option<&Spanned<CredentialTables>>,
) -> Result<CredentialsSettings, ConfigError> {
    let Some(tables) = tables else { return Ok(CredentialsSettings::default()) };
    let common = tables.get_ref().common.as_ref().map(|table| one(source, &tables.span(), table));
    let own = |(account, table): (&String, &Spanned<CredentialTable>)| {
        Ok((account.clone(), one(source, &table.span(), table.get_ref())?))
    };
    let by_account = tables.get_ref().by_account.iter().map(own).collect::<Result<_, _>>()?;
    Ok(CredentialsSettings { common: common.transpose()?, by_account })
}

fn one(source: &Source, span: &Range<usize>, table: &CredentialTable) -> Result<CredentialSettings, ConfigError> {
    let from = from(source, span, table)?;
    let header = match &table.header {
        Some(name) => name.get_ref().parse().map_err(|_| source.fault(&name.span(), "this is the name of a header"))?,
        None => AUTHORIZATION,
    };
    let scheme = table.scheme.as_ref().map(|scheme| word(source, scheme)).transpose()?;
    let scheme = scheme.or_else(|| (header == AUTHORIZATION).then(|| BEARER.to_owned()));
    Ok(CredentialSettings { header, scheme, from, allow_http: table.allow_http.unwrap_or_default() })
}

fn from(source: &Source, span: &Range<usize>, table: &CredentialTable) -> Result<CredentialFrom, ConfigError> {
    let CredentialTable { secret_env, secret_file, oauth, shared_token, allow_http, .. } = table;
    let shared = shared_token.as_ref().filter(|shared| *shared.get_ref());
    match (secret_env, secret_file, oauth, shared) {
        (Some(name), None, None, None) => Ok(CredentialFrom::Secret(SecretSource::Env(variable(source, name)?))),
        (None, Some(path), None, None) => Ok(CredentialFrom::Secret(SecretSource::File(path.get_ref().into()))),
        (None, None, Some(oauth), None) => Ok(CredentialFrom::OAuth {
            credentials: credentials(source, oauth, allow_http.unwrap_or_default())?,
            timeout: TOKEN_TIMEOUT,
        }),
        (None, None, None, Some(_)) => Ok(CredentialFrom::Scheduler),
        _ => Err(source.fault(span, "give one of `secret_env`, `secret_file`, `oauth` and `shared_token`")),
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

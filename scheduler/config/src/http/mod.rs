//! `[http]` and `[http.check]` of the file.

pub(super) mod cost;
pub(super) mod settings;
pub(super) mod token_file;

use super::keys::{keys, value};
use super::nats::NatsTable;
use super::provider::variable;
use super::reading::source::{ConfigError, Source};
use super::reading::value::{Duration, Number, label_key, name, parsed};
use axum::http::uri::Authority;
use cost::{CostTable, unit_costs};
use ipnet::IpNet;
use rampmeter_account::SecretSource;
use rampmeter_listener::stated::Stated;
use rampmeter_listener::tls::CertificateFiles;
use rampmeter_protocol::bounds::MAX_LABELS;
use rampmeter_protocol::name::Name;
use serde::Deserialize;
use settings::{CheckSettings, HttpSettings, LabelSource, OnUnavailable, OriginSettings, TokenSource, checked_listen};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

/// A shorter delay has no effect, and proxies themselves give up after a minute.
type Throttle = Duration<1, 60_000>;
/// Health needs one connection, and an address has no more ports than this.
type MaxConnections = Number<1, 65_535>;
/// The most names in `hosts`. The Host of each request is compared with all of them.
const MAX_HOSTS: usize = 64;
/// A longer chain of proxies would be a loop.
pub(super) type TrustedHops = Number<1, 16>;

keys! {
    /// `[http]`
    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct HttpTable {
        /// The address of /healthz, /readyz, /metrics and the front; "" serves nothing over HTTP.
        /// Also: `--listen`, `RAMPMETER_LISTEN`.
        listen: Option<Spanned<String>> = Default(r#""127.0.0.1:9480""#),
        /// Whether clients without NATS get permits here: /v1/permit, /v1/settle.
        /// false leaves health and metrics.
        front: Option<bool> = Default("true"),
        /// Whether the front has a page for people at /. It shows the names of clients and the labels
        /// of waiting requests to all that get permits here; if there are tokens, to those with
        /// `page = "view"` or "operate".
        page: Option<bool> = Default("true"),
        /// The queues of jobs that the page shows.
        #[serde(default)]
        jobs: Vec<Name> = Example(r#"["roles"]"#),
        /// The account of NATS with these queues, with the keys of `[nats]`. Without this, that of
        /// the scheduler.
        jobs_nats: Option<NatsTable> = Example(r#"{ url = "nats://jobs-operator:password@127.0.0.1:4222" }"#),
        /// The names by which clients and proxies call this scheduler, without a port, beside its
        /// addresses and `localhost`. A request for another Host is answered with 421, because web
        /// pages can have their own names lead here.
        hosts: Option<Vec<Spanned<String>>> = Default(r#"["rampmeter"]"#),
        /// The environment variable with the token that clients of the front show
        /// (Authorization: Bearer ...), 16 bytes or more. An address beyond loopback needs a token.
        token_env: Option<Spanned<String>> = Example(r#""RAMPMETER_TOKEN""#),
        /// The file with that token, in place of the variable. It is read again when it changes.
        token_file: Option<Spanned<String>> = Example(r#""/run/secrets/rampmeter-token""#),
        /// The file with several tokens, in place of the one: a [[token]] has a `name`, a `secret`,
        /// and perhaps the `resources`, the `classes` and the `client` that its holder may name.
        /// It is read again when it changes.
        tokens_file: Option<Spanned<String>> = Example(r#""/run/secrets/rampmeter-tokens.toml""#),
        /// How many connections may wait for permits at once, two thirds of them with one token.
        /// Beyond it, idle and slow ones are closed. 64 more are kept for /healthz, /readyz and
        /// /metrics.
        max_connections: Option<Spanned<MaxConnections>> = Default("4096"),
        /// Whether TLS ends before this scheduler, at a proxy or in a mesh. Then there is no warning
        /// at start that tokens travel in the clear beyond loopback without `[http.tls]`.
        behind_tls: Option<bool> = Default("false"),
        /// The certificate that clients see.
        tls: Option<HttpTlsTable> = Table,
        /// What reverse proxies ask.
        check: Option<Spanned<CheckTable>> = Table,
    }
}

keys! {
    /// `[http.tls]`
    ///
    /// Encryption towards HTTP clients. Without this, listen at loopback or behind TLS.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct HttpTlsTable {
        /// The certificate that clients see, as PEM, with those of intermediate authorities behind
        /// it. Both files are read again when they change.
        cert_file: PathBuf = Given(r#""/etc/rampmeter/http.pem""#),
        /// The private key of that certificate, as PEM.
        key_file: PathBuf = Given(r#""/etc/rampmeter/http-key.pem""#),
    }
}

keys! {
    /// `[http.check]`
    ///
    /// The check that reverse proxies make before they let a request through: /check.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct CheckTable {
        /// The resource that is asked.
        resource: Spanned<String> = Given(r#""my-api""#),
        /// The class of the requests. Without this: the default class of the resource.
        class: Option<Spanned<String>> = Example(r#""standard""#),
        /// What each request costs, as in [[proxy.route]]. Every request costs one of "requests"
        /// unless this says otherwise.
        #[serde(default)]
        cost: CostTable = Example(r#"{ units = { from = "query:units", default = 1, max = 100 } }"#),
        /// How long an answer is held back before it is a 429. Without this, not at all.
        throttle: Option<Spanned<Throttle>> = Example(r#""2s""#),
        /// What is answered when no scheduler is there: "refuse" is 503, "allow" lets all through.
        on_unavailable: Option<OnUnavailable> = Default(r#""refuse""#),
        /// The proxies whose X-Original-URI, X-Forwarded-For and the like are believed.
        /// Without this, none.
        #[serde(default)]
        trusted_proxies: Vec<Spanned<String>> = Example(r#"["127.0.0.1/32"]"#),
        /// How many proxies have added an address to X-Forwarded-For, if their own addresses are
        /// not known. Without this, addresses in `trusted_proxies` are passed over.
        trusted_hops: Option<Spanned<TrustedHops>> = Example("2"),
        /// Whether spellings of a path that mean the same become one before limits match it:
        /// `/%64ear`, `/a/../dear`, `//dear` and `/dear;a=b` are `/dear`. Paths that servers read
        /// differently, such as those with `%2F`, are answered 400. true is right if the backend
        /// takes them for the same page; false leaves paths as they were written.
        normalise: Option<bool> = Default("false"),
        /// The labels, and where each comes from: "header:NAME", "query:KEY", "path", "method",
        /// "client-address".
        #[serde(default)]
        labels: BTreeMap<Spanned<String>, Spanned<String>> =
            Example(r#"{ client = "header:x-api-key", route = "path" }"#),
    }
}

pub(super) fn settings(source: &Source, table: &HttpTable) -> Result<HttpSettings, ConfigError> {
    let defaults = HttpSettings::default();
    let front = table.front.unwrap_or(defaults.front);
    if let (false, Some(check)) = (front, &table.check) {
        return Err(source.fault(&check.span(), "`[http.check]` is part of the front; leave out `front = false`"));
    }
    if let Some(listen) = &table.listen {
        checked_listen(listen.get_ref()).map_err(|wrong| source.fault(&listen.span(), wrong))?;
    }
    Ok(HttpSettings {
        listen: table.listen.clone().map_or(defaults.listen, Spanned::into_inner),
        front,
        page: table.page.unwrap_or(defaults.page),
        jobs: table.jobs.clone(),
        jobs_nats: table.jobs_nats.clone(),
        hosts: table.hosts.as_ref().map(|names| hosts(source, names)).transpose()?.unwrap_or(defaults.hosts),
        tokens: tokens(source, table)?,
        max_connections: table.max_connections.as_ref().map_or(defaults.max_connections, value),
        behind_tls: table.behind_tls.unwrap_or(defaults.behind_tls),
        tls: table.tls.clone().map(|HttpTlsTable { cert_file, key_file }| CertificateFiles {
            cert_file,
            key_file,
            client_ca_file: None,
        }),
        check: table.check.as_ref().map(|check| check_settings(source, check.get_ref())).transpose()?,
    })
}

pub(super) fn hosts(source: &Source, hosts: &[Spanned<String>]) -> Result<Vec<String>, ConfigError> {
    if let Some(beyond) = hosts.get(MAX_HOSTS) {
        return Err(source.fault(&beyond.span(), format!("at most {MAX_HOSTS} hosts")));
    }
    hosts.iter().map(|name| host(source, name)).collect()
}

/// Checks a name of `hosts`: a host without a port or a wildcard.
fn host(source: &Source, name: &Spanned<String>) -> Result<String, ConfigError> {
    let bare: Option<Authority> = name.get_ref().parse().ok();
    match bare.is_some_and(|authority| authority.host() == name.get_ref() && !name.get_ref().contains('*')) {
        true => Ok(name.get_ref().clone()),
        false => {
            Err(source.fault(&name.span(), "a host is one name like \"scheduler-a.internal\", without scheme and port"))
        }
    }
}

fn tokens(source: &Source, table: &HttpTable) -> Result<Option<TokenSource>, ConfigError> {
    let mut given = [&table.token_env, &table.token_file, &table.tokens_file].into_iter().flatten();
    if let Some(second) = given.nth(1) {
        return Err(source.fault(&second.span(), "give one of `token_env`, `token_file` and `tokens_file`"));
    }
    let file = |path: &Spanned<String>| SecretSource::File(path.get_ref().into());
    Ok(match (&table.token_env, &table.token_file, &table.tokens_file) {
        (Some(name), ..) => Some(TokenSource::One(SecretSource::Env(variable(source, name)?))),
        (None, Some(path), _) => Some(TokenSource::One(file(path))),
        (None, None, Some(path)) => Some(TokenSource::Several(path.get_ref().into())),
        (None, None, None) => None,
    })
}

fn check_settings(source: &Source, table: &CheckTable) -> Result<CheckSettings, ConfigError> {
    if let Some(from) = table.labels.values().find(|from| from.get_ref() == "client-certificate") {
        let reason = "\"client-certificate\" is for [[proxy]]; a reverse proxy tells the name in a header";
        return Err(source.fault(&from.span(), reason));
    }
    Ok(CheckSettings {
        resource: name(source, &table.resource)?,
        class: parsed(source, table.class.as_ref())?,
        cost: unit_costs(source, &table.cost)?,
        throttle: table.throttle.as_ref().map(value),
        on_unavailable: table.on_unavailable.unwrap_or_default(),
        origin: origin(source, &table.trusted_proxies, table.trusted_hops.as_ref(), table.normalise, &table.labels)?,
    })
}

/// Reads how the origin of a request is found, from keys that `[http.check]` and `[[proxy]]` share.
pub(super) fn origin(
    source: &Source,
    proxies: &[Spanned<String>],
    hops: Option<&Spanned<TrustedHops>>,
    normalise: Option<bool>,
    labels: &BTreeMap<Spanned<String>, Spanned<String>>,
) -> Result<OriginSettings, ConfigError> {
    if let (Some(hops), []) = (hops, proxies) {
        // A client that is no proxy may write any header.
        return Err(source.fault(&hops.span(), "`trusted_hops` needs `trusted_proxies` with the proxy that asks here"));
    }
    Ok(OriginSettings {
        trusted_proxies: proxies.iter().map(|net| network(source, net)).collect::<Result<_, _>>()?,
        trusted_hops: hops.map(value),
        normalise: normalise.unwrap_or_default(),
        labels: label_sources(source, labels)?,
    })
}

/// Parses a network. An address alone is a network of one address.
fn network(source: &Source, text: &Spanned<String>) -> Result<IpNet, ConfigError> {
    let parsed =
        text.get_ref().parse().or_else(|_| text.get_ref().parse().map(IpNet::from as fn(std::net::IpAddr) -> _));
    parsed.map_err(|_| source.fault(&text.span(), "a network is written like \"127.0.0.1/32\" or \"fd00::/8\""))
}

fn label_sources(
    source: &Source,
    table: &BTreeMap<Spanned<String>, Spanned<String>>,
) -> Result<Vec<(String, LabelSource)>, ConfigError> {
    if let Some(beyond) = table.keys().nth(MAX_LABELS) {
        return Err(source.fault(&beyond.span(), format!("at most {MAX_LABELS} labels")));
    }
    table.iter().map(|(key, from)| Ok((label_key(source, key)?, label_source(source, from)?))).collect()
}

fn label_source(source: &Source, text: &Spanned<String>) -> Result<LabelSource, ConfigError> {
    match (text.get_ref().as_str(), text.get_ref().parse::<Stated>()) {
        (_, Ok(stated)) => Ok(LabelSource::Stated(stated)),
        ("path", _) => Ok(LabelSource::Path),
        ("method", _) => Ok(LabelSource::Method),
        ("client-address", _) => Ok(LabelSource::ClientAddress),
        ("client-certificate", _) => Ok(LabelSource::ClientCertificate),
        (_, Err(_)) => Err(source.fault(
            &text.span(),
            "a label comes from \"header:NAME\", \"query:KEY\", \"path\", \"method\" or \"client-address\"; in \
             [[proxy]] also from \"body:KEY\" or \"client-certificate\"",
        )),
    }
}

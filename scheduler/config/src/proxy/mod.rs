//! `[[proxy]]` of the file.

pub(super) mod credential;

use super::http::cost::{CostTable, unit_costs};
use super::http::settings::{LabelSource, OriginSettings};
use super::http::{TrustedHops, hosts, origin};
use super::keys::{keys, words};
use super::limits::pricing::Pricing;
use super::provider::is_loopback;
use super::reading::faults::Faults;
use super::reading::source::{ConfigError, Source};
use super::reading::value::{Duration, Number, Parsed, label_key, parsed};
use axum::http::{HeaderName, Uri};
use credential::{CredentialTables, CredentialsSettings};
use rampmeter_account::duration;
use rampmeter_listener::tls::CertificateFiles;
use rampmeter_protocol::name::Name;
use rampmeter_proxy::route::{PathTemplate, Route, RouteLabel, Routes};
use rampmeter_proxy::settings::{Asking, Bounds, Encryption, HeaderSettings, Pages, SafeRate, Times, Upstream};
use rampmeter_proxy::tokens::{BodyLabel, TokenUnits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

const DEFAULT_LISTEN: &str = "127.0.0.1:9470";
/// `max_wait` is at most a month, the longest quota of an upstream.
type MaxWait = Duration<1, { 31 * 86_400_000 }>;
/// All other times: no answer comes sooner, and no answer takes longer than a day.
type Time = Duration<1, 86_400_000>;
/// Numbers of connections and requests: each takes memory and a file.
type Count = Number<1, 1_000_000>;
/// Numbers of bytes: bodies are counted in 32 bits.
type Bytes = Number<0, { 1 << 30 }>;
const BODY: &str = "body:";
/// The unit of limits that count money.
pub const MONEY: &str = "usd";
/// The units of tokens that count without a configuration.
pub(super) const TOKENS: [&str; 3] = ["tokens", "input-tokens", "output-tokens"];
/// The most routes of a proxy. Each request is compared with them one by one.
const MAX_ROUTES: usize = 256;

keys! {
    /// `[[proxy]]`
    ///
    /// A proxy that holds requests until their permits start: `rampmeter proxy`, or beside the scheduler.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct ProxyTable fills ProxySettings {
        /// The address for clients. Also: `--listen`.
        listen: Option<Spanned<String>> = Default(r#""127.0.0.1:9470""#) => listen,
        /// The server behind the proxy, perhaps with a path in front of all paths.
        /// Also: `--upstream`. Without either, `rampmeter serve` leaves the proxy out.
        upstream: Option<Spanned<Parsed<Upstream>>> = Given(r#""https://api.example.com""#) => upstream,
        /// The resource whose permits requests wait for. Without this: the only one of this file.
        /// Also: `--resource`.
        resource: Option<Spanned<Name>> = Example(r#""my-api""#) => resource,
        /// How long a request is held before it is answered 429.
        max_wait: Option<Spanned<MaxWait>> = Default(r#""10m""#) => times.max_wait,
        /// What happens to requests while no scheduler answers: "wait" holds them up to `max_wait`,
        /// "refuse" answers them 503, "safe-rate" forwards them at `safe_rate`.
        on_unavailable: Option<Spanned<OnUnavailableWord>> = Default(r#""wait""#),
        /// How many calls this proxy makes in which time while no scheduler answers. It has to be
        /// safe for the dearest calls, beside all other proxies.
        safe_rate: Option<Spanned<String>> = Example(r#""6/1m""#),
        /// The class of the requests. Without this: the default class of the resource.
        class: Option<Name> = Example(r#""standard""#),
        /// The header in which clients name their class. Without this, they can't.
        class_header: Option<Spanned<Parsed<HeaderName>>> = Example(r#""x-rampmeter-class""#) => asking.class_header,
        /// The labels, and where each comes from: "header:NAME", "query:KEY", "path", "method",
        /// "client-address", "body:KEY" for a text in the JSON of the body, and
        /// "client-certificate" for the first DNS name in the certificate of the client.
        #[serde(default)]
        labels: BTreeMap<Spanned<String>, Spanned<String>> =
            Example(r#"{ client = "header:x-api-key", model = "body:model" }"#),
        /// The proxies in front of this one, whose X-Forwarded-For is believed and kept.
        /// Without this, none.
        #[serde(default)]
        trusted_proxies: Vec<Spanned<String>> = Example(r#"["127.0.0.1/32"]"#),
        /// How many of them have added an address to X-Forwarded-For, if their own addresses are
        /// not known. Without this, addresses in `trusted_proxies` are passed over.
        trusted_hops: Option<Spanned<TrustedHops>> = Example("2"),
        /// Whether spellings of a path that mean the same become one before labels, routes and
        /// prices look at it, as in `[http.check]`. The upstream gets it as it was written.
        normalise: Option<bool> = Default("false"),
        /// The units of tokens of language models: `input`, `output` and `total`, the sum. Requests
        /// cost what their bodies and `max_tokens` allow, and are settled with what responses say
        /// (`usage`), unless `settle` is false. Without this, the units `tokens`, `input-tokens` and
        /// `output-tokens` count if limits of this file have them.
        tokens: Option<Spanned<TokenUnits>> = Example(r#"{ total = "tokens" }"#) => asking.tokens,
        /// A file with prices of language models, beside and in place of those that `rampmeter price
        /// --list` prints. A limit with `unit = "usd"` counts what calls cost: the most that a body
        /// allows, and then what responses say.
        prices: Option<String> = Example(r#""/etc/rampmeter/prices.json""#),
        /// Whose rules tell from a body what its request costs: "sentinel-hub" computes processing
        /// units. A request without a price costs what its route says.
        price: Option<Spanned<Parsed<Pricing>>> = Example(r#""sentinel-hub""#) => price,
        /// What happens to requests whose bodies do not tell what they cost: "default" forwards them
        /// at what their route says, "refuse" answers them 422.
        on_unpriced: Option<OnUnpricedWord> = Default(r#""default""#),
        /// Units whose amounts clients may state, and the header of each.
        #[serde(default)]
        cost_headers: BTreeMap<Name, Parsed<HeaderName>> = Example(r#"{ tokens = "x-cost-tokens" }"#),
        /// Whether the upstream sees the Host of the client instead of its own name.
        keep_host: Option<Spanned<bool>> = Default("false") => headers.keep_host,
        /// Whether the upstream learns the client's address: X-Forwarded-For, -Proto and -Host.
        forwarded: Option<Spanned<bool>> = Default("true") => headers.forwarded,
        /// Whether answers have X-Rampmeter-Wait-Ms: how long their requests were held.
        tell_wait: Option<Spanned<bool>> = Default("false") => headers.tell_wait,
        /// How many bytes of a body are kept. A request with a longer one is not repeated
        /// after a 429. Bodies that tell what they cost are kept up to 32 MiB.
        replay_bytes: Option<Spanned<Bytes>> = Default("1048576") => bounds.replay_bytes,
        /// How many bytes of all bodies together are kept.
        replay_memory: Option<Spanned<Bytes>> = Default("268435456") => bounds.replay_memory,
        /// How many requests are held at once. Further ones are answered 503.
        max_held: Option<Spanned<Count>> = Default("10000") => bounds.held,
        /// How many connections clients have. Further ones wait until one ends.
        max_clients: Option<Spanned<Count>> = Default("16384") => bounds.clients,
        /// How many calls of the upstream are in flight at once. Further ones wait.
        max_connections: Option<Spanned<Count>> = Default("1024") => bounds.in_flight,
        /// How long a connection to the upstream may take.
        connect_timeout: Option<Spanned<Time>> = Default(r#""10s""#) => times.connect,
        /// How long the upstream may take from the last byte of a request to its answer.
        first_byte_timeout: Option<Spanned<Time>> = Default(r#""10m""#) => times.first_byte,
        /// How long the upstream may be silent in the middle of an answer, which is cut off then.
        next_byte_timeout: Option<Spanned<Time>> = Default(r#""10m""#) => times.next_byte,
        /// How long a connection to the upstream is kept without a request.
        idle: Option<Spanned<Time>> = Default(r#""30s""#) => times.idle,
        /// How long held requests go on waiting when the process is told to stop.
        drain: Option<Spanned<Time>> = Default(r#""20s""#) => times.drain,
        /// The names by which clients call this proxy, without a port, beside its addresses,
        /// `localhost`, the upstream's host and the hosts of routes. A request for another Host is
        /// answered with 421, because web pages can have their own names lead here.
        #[serde(default)]
        hosts: Vec<Spanned<String>> = Example(r#"["proxy.internal"]"#),
        /// The origins of web pages that may send requests through this proxy, with its credential.
        /// Without this, none may.
        #[serde(default)]
        origins: Vec<Spanned<String>> = Example(r#"["https://app.example"]"#),
        /// The certificate that clients see, as PEM. Without this, they are not encrypted. The
        /// files are read again when they change.
        cert_file: Option<Spanned<String>> = Example(r#""/etc/rampmeter/proxy.pem""#),
        /// The private key of that certificate, as PEM.
        key_file: Option<Spanned<String>> = Example(r#""/etc/rampmeter/proxy-key.pem""#),
        /// The authorities that clients need a certificate of, as PEM. Without this, clients need
        /// none.
        client_ca_file: Option<Spanned<String>> = Example(r#""/etc/rampmeter/client-ca.pem""#),
        /// The authorities that count for the upstream instead of those of the system, as PEM.
        ca_file: Option<String> = Example(r#""/etc/rampmeter/upstream-ca.pem""#),
        /// The address of /metrics and /healthz of this proxy. Without this, there are none.
        metrics: Option<Spanned<String>> = Example(r#""127.0.0.1:9471""#) => metrics,
        /// What the upstream sees in place of the clients' own secrets.
        credential: Option<Spanned<CredentialTables>> = Table,
        /// Kinds of requests with a class, labels and a cost of their own: [[proxy.route]].
        #[serde(default)]
        route: Vec<Spanned<RouteTable>> = Table,
    }
}

keys! {
    /// `[[proxy.route]]`
    ///
    /// A kind of requests of the proxy above.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct RouteTable {
        /// The path. `{name}` is one segment, and its value the label `name`; `*` at the end is
        /// any rest. The first route that fits a request counts.
        path: Parsed<PathTemplate> = Given(r#""/guilds/{guild}/*""#),
        /// The methods. Without this: all.
        #[serde(default)]
        methods: Vec<Spanned<String>> = Example(r#"["PUT", "PATCH"]"#),
        /// The host that clients name. Without this: any.
        host: Option<String> = Example(r#""api.example.com""#),
        /// The class of these requests.
        class: Option<Name> = Example(r#""bulk""#),
        /// Labels of these requests: texts, or "header:NAME" or "query:KEY" for what they state.
        #[serde(default)]
        labels: BTreeMap<Spanned<String>, String> = Example(r#"{ route = "members", client = "query:key" }"#),
        /// What each costs: numbers, or "query:KEY" or "header:NAME" for what requests state. With
        /// `{ from = "query:KEY", default = 1, min = 1, max = 100 }`, `default` is for those that
        /// state nothing, which are refused without it, and amounts beyond `min` and `max` count as
        /// these. The largest of several amounts counts. Every request costs one of "requests"
        /// unless it says otherwise.
        #[serde(default)]
        cost: CostTable = Example(r#"{ requests = 1, tokens = 500, units = "query:units" }"#),
    }
}

words! {
    /// `on_unavailable`
    pub(super) enum OnUnavailableWord { Wait, Refuse, SafeRate }
}

words! {
    /// `on_unpriced`
    pub(super) enum OnUnpricedWord { Default, Refuse }
}

/// What happens while no scheduler answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNoScheduler {
    /// Requests are held.
    #[default]
    Wait,
    /// Requests are refused.
    Refuse,
    /// Requests are forwarded at this rate.
    SafeRate(SafeRate),
}

/// `[[proxy]]`, checked.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// The address for clients.
    pub listen: String,
    /// The server behind the proxy, which the command line may give instead.
    pub upstream: Option<Upstream>,
    /// The resource, which the command line may give instead.
    pub resource: Option<Name>,
    /// What happens while no scheduler answers.
    pub on_no_scheduler: OnNoScheduler,
    /// What requests ask for, except functions built from `origin`, `price` and the resource.
    pub asking: Asking,
    /// How every request is read.
    pub origin: OriginSettings,
    /// The file with prices of language models that replace those of the list.
    pub prices: Option<PathBuf>,
    /// The rules by which bodies are priced.
    pub price: Option<Pricing>,
    /// What the upstream receives in place of the clients' secrets.
    pub credentials: CredentialsSettings,
    /// What the upstream learns of clients.
    pub headers: HeaderSettings,
    /// How long each step of an exchange may take.
    pub times: Times,
    /// The most that the proxy holds: requests, connections and bytes.
    pub bounds: Bounds,
    /// How connections are encrypted.
    pub encryption: Encryption,
    /// What web pages may ask for.
    pub pages: Pages,
    /// The address of its metrics, if they are served.
    pub metrics: Option<String>,
}

impl Default for ProxySettings {
    fn default() -> Self {
        ProxySettings {
            listen: DEFAULT_LISTEN.to_owned(),
            upstream: None,
            resource: None,
            on_no_scheduler: OnNoScheduler::default(),
            asking: Asking::default(),
            origin: OriginSettings::default(),
            prices: None,
            price: None,
            credentials: CredentialsSettings::default(),
            headers: HeaderSettings { forwarded: true, ..HeaderSettings::default() },
            times: Times::default(),
            bounds: Bounds::default(),
            encryption: Encryption::default(),
            pages: Pages::default(),
            metrics: None,
        }
    }
}

impl ProxySettings {
    /// Returns whether the credential would go over a network unencrypted.
    #[must_use]
    pub fn shows_secret_to_all(&self) -> bool {
        let is_public = |upstream: &Upstream| !upstream.is_encrypted() && !is_loopback(upstream.host());
        let has_to_be_hidden = self.credentials.all().any(|credential| !credential.allow_http);
        has_to_be_hidden && self.upstream.as_ref().is_some_and(is_public)
    }
}

pub(super) fn proxies(source: &Source, faults: &mut Faults, tables: &[Spanned<ProxyTable>]) -> Vec<ProxySettings> {
    tables.iter().filter_map(|table| faults.take(proxy(source, table.get_ref()))).collect()
}

fn proxy(source: &Source, table: &ProxyTable) -> Result<ProxySettings, ConfigError> {
    let (of_bodies, of_heads): (BTreeMap<_, _>, BTreeMap<_, _>) =
        table.labels.clone().into_iter().partition(|(_, from)| from.get_ref().starts_with(BODY));
    let origin = origin(source, &table.trusted_proxies, table.trusted_hops.as_ref(), table.normalise, &of_heads)?;
    let wants_certificate = origin.labels.iter().any(|(_, from)| *from == LabelSource::ClientCertificate);
    if let (true, None, Some(from)) = (wants_certificate, &table.client_ca_file, of_heads.values().next()) {
        return Err(source.fault(&from.span(), "\"client-certificate\" needs `client_ca_file`"));
    }
    let defaults = ProxySettings::default();
    let mut settings = ProxySettings {
        on_no_scheduler: on_no_scheduler(source, table)?,
        asking: Asking {
            routes: routes(source, &table.route)?,
            normalise: origin.normalise,
            class: table.class.as_ref().map(ToString::to_string),
            body_labels: of_bodies.iter().map(|(key, from)| body_label(source, key, from)).collect::<Result<_, _>>()?,
            cost_headers: table.cost_headers.iter().map(|(unit, name)| (unit.to_string(), name.0.clone())).collect(),
            refuses_unpriced: table.on_unpriced.is_some_and(|word| word == OnUnpricedWord::Refuse),
            ..Asking::default()
        },
        headers: HeaderSettings { trusted_proxies: origin.trusted_proxies.clone(), ..defaults.headers },
        origin,
        prices: table.prices.as_ref().map(PathBuf::from),
        credentials: credential::settings(source, table.credential.as_ref())?,
        encryption: encryption(source, table)?,
        pages: Pages {
            hosts: hosts(source, &table.hosts)?,
            origins: table.origins.iter().map(|text| web_origin(source, text)).collect::<Result<_, _>>()?,
        },
        ..defaults
    };
    table.fill(&mut settings);
    Ok(settings)
}

fn body_label(source: &Source, key: &Spanned<String>, from: &Spanned<String>) -> Result<BodyLabel, ConfigError> {
    match from.get_ref().trim_start_matches(BODY) {
        "" => Err(source.fault(&from.span(), "a label of a body comes from \"body:KEY\"")),
        of_json => Ok(BodyLabel { label: label_key(source, key)?, key: of_json.to_owned(), otherwise: None }),
    }
}

fn on_no_scheduler(source: &Source, table: &ProxyTable) -> Result<OnNoScheduler, ConfigError> {
    match (&table.on_unavailable, &table.safe_rate) {
        (Some(word), Some(rate)) if *word.get_ref() == OnUnavailableWord::SafeRate => {
            safe_rate(source, rate).map(OnNoScheduler::SafeRate)
        }
        (_, Some(rate)) => Err(source.fault(&rate.span(), "`safe_rate` is for `on_unavailable = \"safe-rate\"`")),
        (Some(word), None) => match word.get_ref() {
            OnUnavailableWord::Wait => Ok(OnNoScheduler::Wait),
            OnUnavailableWord::Refuse => Ok(OnNoScheduler::Refuse),
            OnUnavailableWord::SafeRate => {
                Err(source.fault(&word.span(), "\"safe-rate\" needs the rate: `safe_rate = \"6/1m\"`"))
            }
        },
        (None, None) => Ok(OnNoScheduler::default()),
    }
}

fn safe_rate(source: &Source, text: &Spanned<String>) -> Result<SafeRate, ConfigError> {
    let fault = |why: String| source.fault(&text.span(), why);
    let parts = text
        .get_ref()
        .split_once('/')
        .and_then(|(calls, per)| Some((calls.trim().parse::<u32>().ok()?, duration::parse(per.trim()).ok()?)));
    let (calls, per) =
        parts.ok_or_else(|| fault("a rate is written like \"6/1m\": calls, and their time".to_owned()))?;
    SafeRate::new(calls, per.duration()).map_err(|error| fault(error.to_string()))
}

fn encryption(source: &Source, table: &ProxyTable) -> Result<Encryption, ConfigError> {
    let path = |file: &Spanned<String>| PathBuf::from(file.get_ref());
    let certificate = match (&table.cert_file, &table.key_file) {
        (Some(cert), Some(key)) => {
            let client_ca_file = table.client_ca_file.as_ref().map(path);
            Some(CertificateFiles { cert_file: path(cert), key_file: path(key), client_ca_file })
        }
        (None, None) => match &table.client_ca_file {
            Some(file) => return Err(source.fault(&file.span(), "`client_ca_file` needs `cert_file` and `key_file`")),
            None => None,
        },
        (Some(file), None) => return Err(source.fault(&file.span(), "`cert_file` needs the private key: `key_file`")),
        (None, Some(file)) => return Err(source.fault(&file.span(), "`key_file` needs the certificate: `cert_file`")),
    };
    Ok(Encryption { certificate, upstream_ca: table.ca_file.as_ref().map(PathBuf::from) })
}

/// Checks an origin as browsers write it: a scheme and a host, perhaps with a port.
fn web_origin(source: &Source, text: &Spanned<String>) -> Result<String, ConfigError> {
    let is_origin = |origin: &&String| {
        let uri = origin.parse::<Uri>().ok();
        uri.is_some_and(|uri| uri.scheme().is_some() && uri.path() == "/" && !origin.ends_with('/'))
    };
    let fault = || source.fault(&text.span(), "an origin is written like \"https://app.example\", without a path");
    Some(text.get_ref()).filter(is_origin).cloned().ok_or_else(fault)
}

fn routes(source: &Source, tables: &[Spanned<RouteTable>]) -> Result<Routes, ConfigError> {
    if let Some(beyond) = tables.get(MAX_ROUTES) {
        return Err(source.fault(&beyond.span(), format!("at most {MAX_ROUTES} routes")));
    }
    let routes: Result<Vec<Route>, _> = tables.iter().map(|table| route(source, table.get_ref())).collect();
    Ok(Routes::new(routes?))
}

fn route(source: &Source, table: &RouteTable) -> Result<Route, ConfigError> {
    let label = |(key, text): (&Spanned<String>, &String)| {
        let value = text.parse().map_or_else(|_| RouteLabel::Text(text.clone()), RouteLabel::Stated);
        Ok((label_key(source, key)?, value))
    };
    let methods = table.methods.iter().filter_map(|method| parsed(source, Some(method)).transpose());
    Ok(Route {
        methods: methods.collect::<Result<_, _>>()?,
        host: table.host.clone(),
        path: table.path.0.clone(),
        class: table.class.as_ref().map(ToString::to_string),
        labels: table.labels.iter().map(label).collect::<Result<_, _>>()?,
        cost: unit_costs(source, &table.cost)?,
    })
}

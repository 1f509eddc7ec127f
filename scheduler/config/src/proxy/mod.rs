//! `[[proxy]]` of the file.

pub(super) mod credential;

use super::http::settings::{LabelSource, OriginSettings};
use super::http::{OriginTable, counted, hosts, label_key, origin};
use super::keys::{keys, words};
use super::limits::pricing::Pricing;
use super::provider::is_loopback;
use super::reading::faults::Faults;
use super::reading::source::{ConfigError, Source};
use super::reading::value::{name, within};
use axum::http::{HeaderName, Method, Uri};
use credential::{CredentialSettings, CredentialTable};
use rampmeter_account::duration;
use rampmeter_dialects::Reader;
use rampmeter_listener::tls::CertificateFiles;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_proxy::route::{Cost, PathTemplate, Route, Routes};
use rampmeter_proxy::settings::{Bounds, Encryption, HeaderSettings, Pages, SafeRate, Times, Upstream};
use rampmeter_proxy::tokens::{BodyLabel, TokenUnits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use toml::Spanned;

/// Where a proxy listens by default.
const DEFAULT_LISTEN: &str = "127.0.0.1:9470";
/// The bounds of `max_wait`: at most a month, the longest quota of an upstream.
const MAX_WAIT: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(31 * 86_400);
/// The bounds of all other times: no answer comes sooner, and no answer takes longer than a day.
const TIME: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(86_400);
/// The bounds of numbers of connections and requests: each takes memory and a file.
const COUNT: RangeInclusive<usize> = 1..=1_000_000;
/// The bounds of numbers of bytes: bodies are counted in 32 bits.
const BYTES: RangeInclusive<usize> = 0..=1 << 30;
/// What stands in front of a key in a body.
const BODY: &str = "body:";
/// The most routes of a proxy. Each request is compared with them one by one.
const MAX_ROUTES: usize = 256;

keys! {
    /// `[[proxy]]`
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct ProxyTable {
        /// The address for clients. Also: `--listen`.
        listen: Option<String> = Default(r#""127.0.0.1:9470""#),
        /// The server behind the proxy, perhaps with a path in front of all paths.
        /// Also: `--upstream`. Without either, `rampmeter serve` leaves the proxy out.
        upstream: Option<Spanned<String>> = Given(r#""https://api.example.com""#),
        /// The resource whose permits requests wait for. Without this: the only one of this file.
        /// Also: `--resource`.
        resource: Option<Spanned<String>> = Example(r#""my-api""#),
        /// How long a request is held before it is answered 429.
        max_wait: Option<Spanned<String>> = Default(r#""10m""#),
        /// What happens to requests while no scheduler answers: "wait" holds them up to `max_wait`,
        /// "refuse" answers them 503, "safe-rate" forwards them at `safe_rate`.
        on_unavailable: Option<Spanned<OnUnavailableWord>> = Default(r#""wait""#),
        /// How many calls this proxy makes in which time while no scheduler answers. It has to be
        /// safe for the dearest calls, beside all other proxies.
        safe_rate: Option<Spanned<String>> = Example(r#""6/1m""#),
        /// The class of the requests. Without this: the default class of the resource.
        class: Option<Spanned<String>> = Example(r#""standard""#),
        /// The header in which clients name their class. Without this, they can't.
        class_header: Option<Spanned<String>> = Example(r#""x-rampmeter-class""#),
        /// The labels, and where each comes from: "header:NAME", "path", "method",
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
        trusted_hops: Option<Spanned<usize>> = Example("2"),
        /// Whether spellings of a path that mean the same become one before labels, routes and
        /// prices look at it, as in `[http.check]`. The upstream gets it as it was written.
        normalise: Option<bool> = Default("false"),
        /// The units of tokens of language models: `input`, `output` and `total`, the sum. Requests
        /// cost what their bodies and `max_tokens` allow, and are settled with what answers say
        /// (`usage`), unless `settle` is false. Without this, the units `tokens`, `input-tokens` and
        /// `output-tokens` count if limits of this file have them.
        tokens: Option<TokenUnitsTable> = Example(r#"{ total = "tokens" }"#),
        /// Whose rules tell from a body what its request costs: "sentinel-hub" computes processing
        /// units. A request without a price costs what its route says.
        price: Option<Spanned<String>> = Example(r#""sentinel-hub""#),
        /// What happens to requests whose bodies do not tell what they cost: "default" forwards them
        /// at what their route says, "refuse" answers them 422.
        on_unpriced: Option<OnUnpricedWord> = Default(r#""default""#),
        /// Units whose amounts clients may state, and the header of each.
        #[serde(default)]
        cost_headers: BTreeMap<Spanned<Name>, Spanned<String>> = Example(r#"{ tokens = "x-cost-tokens" }"#),
        /// Whether the upstream sees the Host of the client instead of its own name.
        keep_host: Option<bool> = Default("false"),
        /// Whether the upstream learns the client's address: X-Forwarded-For, -Proto and -Host.
        forwarded: Option<bool> = Default("true"),
        /// Whether answers have X-Rampmeter-Wait-Ms: how long their requests were held.
        tell_wait: Option<bool> = Default("false"),
        /// How many bytes of a body are kept. A request with a longer one is not repeated
        /// after a 429. Bodies that tell what they cost are kept up to 32 MiB.
        replay_bytes: Option<Spanned<usize>> = Default("1048576"),
        /// How many bytes of all bodies together are kept.
        replay_memory: Option<Spanned<usize>> = Default("268435456"),
        /// How many requests are held at once. Further ones are answered 503.
        max_held: Option<Spanned<usize>> = Default("10000"),
        /// How many connections clients have. Further ones wait until one ends.
        max_clients: Option<Spanned<usize>> = Default("16384"),
        /// How many calls of the upstream are in flight at once. Further ones wait.
        max_connections: Option<Spanned<usize>> = Default("1024"),
        /// How long a connection to the upstream may take.
        connect_timeout: Option<Spanned<String>> = Default(r#""10s""#),
        /// How long the upstream may take from the last byte of a request to its answer.
        first_byte_timeout: Option<Spanned<String>> = Default(r#""10m""#),
        /// How long the upstream may be silent in the middle of an answer, which is cut off then.
        next_byte_timeout: Option<Spanned<String>> = Default(r#""10m""#),
        /// How long a connection to the upstream is kept without a request.
        idle: Option<Spanned<String>> = Default(r#""30s""#),
        /// How long held requests go on waiting when the process is told to stop.
        drain: Option<Spanned<String>> = Default(r#""20s""#),
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
        metrics: Option<String> = Example(r#""127.0.0.1:9471""#),
        /// What the upstream sees in place of the clients' own secrets.
        credential: Option<Spanned<CredentialTable>> = Table,
        /// Kinds of requests with a class, labels and a cost of their own: [[proxy.route]].
        #[serde(default)]
        route: Vec<Spanned<RouteTable>> = Table,
    }
}

keys! {
    /// `[[proxy.route]]`
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct RouteTable {
        /// The path. `{name}` is one segment, and its value the label `name`; `*` at the end is
        /// any rest. The first route that fits a request counts.
        path: Spanned<String> = Given(r#""/guilds/{guild}/*""#),
        /// The methods. Without this: all.
        #[serde(default)]
        methods: Vec<Spanned<String>> = Example(r#"["PUT", "PATCH"]"#),
        /// The host that clients name. Without this: any.
        host: Option<String> = Example(r#""api.example.com""#),
        /// The class of these requests.
        class: Option<Spanned<String>> = Example(r#""bulk""#),
        /// Labels of these requests.
        #[serde(default)]
        labels: BTreeMap<Spanned<String>, String> = Example(r#"{ route = "members" }"#),
        /// What each costs. Every request costs one of "requests" unless it says otherwise.
        #[serde(default)]
        cost: BTreeMap<Spanned<String>, f64> = Example("{ requests = 1, tokens = 500 }"),
    }
}

/// `tokens = { … }`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenUnitsTable {
    input: Option<Name>,
    output: Option<Name>,
    total: Option<Name>,
    #[serde(default = "yes")]
    settle: bool,
}

fn yes() -> bool {
    true
}

impl From<&TokenUnitsTable> for TokenUnits {
    fn from(table: &TokenUnitsTable) -> Self {
        let unit = |name: &Option<Name>| name.as_ref().map(ToString::to_string);
        TokenUnits {
            input: unit(&table.input),
            output: unit(&table.output),
            total: unit(&table.total),
            settles: table.settle,
        }
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
    /// The server behind the proxy; the command line may name it instead.
    pub upstream: Option<Upstream>,
    /// The resource; the command line may name it instead.
    pub resource: Option<Name>,
    /// What happens while no scheduler answers.
    pub on_no_scheduler: OnNoScheduler,
    /// The class of requests whose route has none.
    pub class: Option<Name>,
    /// The header in which clients name their class.
    pub class_header: Option<HeaderName>,
    /// What is read of every request.
    pub origin: OriginSettings,
    /// Labels that bodies tell.
    pub body_labels: Vec<BodyLabel>,
    /// The units of tokens, if requests are those to language models.
    pub tokens: Option<TokenUnits>,
    /// The rules by which bodies are priced.
    pub price: Option<Pricing>,
    /// Whether requests without a price are refused.
    pub refuses_unpriced: bool,
    /// The reader of the upstream's responses, if the file has the resource.
    pub reader: Option<Reader>,
    /// Units whose amounts clients may state.
    pub cost_headers: Vec<(String, HeaderName)>,
    /// Kinds of requests.
    pub routes: Routes,
    /// What the upstream sees in place of the clients' secrets.
    pub credential: Option<CredentialSettings>,
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
            class: None,
            class_header: None,
            origin: OriginSettings::default(),
            body_labels: Vec::new(),
            tokens: None,
            price: None,
            refuses_unpriced: false,
            reader: None,
            cost_headers: Vec::new(),
            routes: Routes::default(),
            credential: None,
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
    /// Whether the credential would go over a network unencrypted.
    #[must_use]
    pub fn shows_secret_to_all(&self) -> bool {
        let is_public = |upstream: &Upstream| !upstream.is_encrypted() && !is_loopback(upstream.host());
        let has_to_be_hidden = self.credential.as_ref().is_some_and(|credential| !credential.allow_http);
        has_to_be_hidden && self.upstream.as_ref().is_some_and(is_public)
    }
}

/// The proxies of the file.
pub(super) fn proxies(source: &Source, faults: &mut Faults, tables: &[Spanned<ProxyTable>]) -> Vec<ProxySettings> {
    tables.iter().filter_map(|table| faults.take(proxy(source, table.get_ref()))).collect()
}

fn proxy(source: &Source, table: &ProxyTable) -> Result<ProxySettings, ConfigError> {
    let defaults = ProxySettings::default();
    let (of_bodies, of_heads): (BTreeMap<_, _>, BTreeMap<_, _>) =
        table.labels.clone().into_iter().partition(|(_, from)| from.get_ref().starts_with(BODY));
    let origin_table = OriginTable {
        trusted_proxies: &table.trusted_proxies,
        trusted_hops: table.trusted_hops.as_ref(),
        normalise: table.normalise,
        labels: &of_heads,
    };
    let origin = origin(source, &origin_table)?;
    let wants_certificate = origin.labels.iter().any(|(_, from)| *from == LabelSource::ClientCertificate);
    if let (true, None, Some(from)) = (wants_certificate, &table.client_ca_file, of_heads.values().next()) {
        return Err(source.fault(&from.span(), "\"client-certificate\" needs `client_ca_file`"));
    }
    Ok(ProxySettings {
        listen: table.listen.clone().unwrap_or(defaults.listen),
        upstream: table.upstream.as_ref().map(|text| parsed(source, text)).transpose()?,
        resource: table.resource.as_ref().map(|text| name(source, text)).transpose()?,
        on_no_scheduler: on_no_scheduler(source, table)?,
        class: table.class.as_ref().map(|class| name(source, class)).transpose()?,
        class_header: table.class_header.as_ref().map(|header| parsed(source, header)).transpose()?,
        headers: HeaderSettings {
            keep_host: table.keep_host.unwrap_or(defaults.headers.keep_host),
            forwarded: table.forwarded.unwrap_or(defaults.headers.forwarded),
            trusted_proxies: origin.trusted_proxies.clone(),
            tell_wait: table.tell_wait.unwrap_or(defaults.headers.tell_wait),
        },
        origin,
        body_labels: of_bodies.iter().map(|(key, from)| body_label(source, key, from)).collect::<Result<_, _>>()?,
        tokens: table.tokens.as_ref().map(TokenUnits::from),
        price: table.price.as_ref().map(|rules| parsed(source, rules)).transpose()?,
        refuses_unpriced: table.on_unpriced.is_some_and(|word| word == OnUnpricedWord::Refuse),
        reader: None,
        cost_headers: cost_headers(source, &table.cost_headers)?,
        credential: table.credential.as_ref().map(|table| credential::settings(source, table)).transpose()?,
        routes: routes(source, &table.route)?,
        times: times(source, table)?,
        bounds: bounds(source, table)?,
        encryption: encryption(source, table)?,
        pages: Pages {
            hosts: hosts(source, &table.hosts)?,
            origins: table.origins.iter().map(|text| web_origin(source, text)).collect::<Result<_, _>>()?,
        },
        metrics: table.metrics.clone(),
    })
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

fn cost_headers(
    source: &Source,
    table: &BTreeMap<Spanned<Name>, Spanned<String>>,
) -> Result<Vec<(String, HeaderName)>, ConfigError> {
    table.iter().map(|(unit, header)| Ok((unit.get_ref().to_string(), parsed(source, header)?))).collect()
}

fn times(source: &Source, table: &ProxyTable) -> Result<Times, ConfigError> {
    let defaults = Times::default();
    let time = |text: &Option<Spanned<String>>, otherwise| {
        within(source, text.as_ref(), &TIME).map(|time| time.unwrap_or(otherwise))
    };
    Ok(Times {
        max_wait: within(source, table.max_wait.as_ref(), &MAX_WAIT)?.unwrap_or(defaults.max_wait),
        connect: time(&table.connect_timeout, defaults.connect)?,
        first_byte: time(&table.first_byte_timeout, defaults.first_byte)?,
        next_byte: time(&table.next_byte_timeout, defaults.next_byte)?,
        idle: time(&table.idle, defaults.idle)?,
        drain: time(&table.drain, defaults.drain)?,
    })
}

fn bounds(source: &Source, table: &ProxyTable) -> Result<Bounds, ConfigError> {
    let defaults = Bounds::default();
    let number = |number: &Option<Spanned<usize>>, range, otherwise| {
        counted(source, number.as_ref(), range).map(|number| number.unwrap_or(otherwise))
    };
    Ok(Bounds {
        clients: number(&table.max_clients, &COUNT, defaults.clients)?,
        held: number(&table.max_held, &COUNT, defaults.held)?,
        in_flight: number(&table.max_connections, &COUNT, defaults.in_flight)?,
        replay_bytes: number(&table.replay_bytes, &BYTES, defaults.replay_bytes)?,
        replay_memory: number(&table.replay_memory, &BYTES, defaults.replay_memory)?,
    })
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

/// An origin as browsers write it: a scheme and a host, perhaps with a port.
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
    let label = |(key, value): (&Spanned<String>, &String)| Ok((label_key(source, key)?, value.clone()));
    let path: PathTemplate = parsed(source, &table.path)?;
    Ok(Route {
        methods: table.methods.iter().map(|method| parsed::<Method>(source, method)).collect::<Result<_, _>>()?,
        host: table.host.clone(),
        path,
        class: table.class.as_ref().map(|class| name(source, class)).transpose()?.map(|class| class.to_string()),
        labels: table.labels.iter().map(label).collect::<Result<_, _>>()?,
        cost: cost(source, &table.cost)?,
    })
}

fn cost(source: &Source, table: &BTreeMap<Spanned<String>, f64>) -> Result<Cost, ConfigError> {
    let Some(last) = table.keys().next_back() else { return Ok(Cost::default()) };
    let cost = Cost::of_units(table.iter().map(|(unit, amount)| (unit.get_ref().as_str(), *amount)));
    cost.map_err(|error| source.fault(&last.span(), error.to_string()))
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    source: &Source,
    text: &Spanned<String>,
) -> Result<T, ConfigError> {
    text.get_ref().parse().map_err(|error: T::Err| source.fault(&text.span(), error.to_string()))
}

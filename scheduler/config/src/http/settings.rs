//! The settings of HTTP, checked.

use crate::nats::NatsTable;
use anyhow::bail;
use ipnet::IpNet;
use rampmeter_account::SecretSource;
use rampmeter_listener::stated::{Stated, UnitCost};
use rampmeter_listener::tls::CertificateFiles;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The default number of connections: enough for some reverse proxies and many long polls.
pub const DEFAULT_MAX_CONNECTIONS: usize = 4096;

/// `[http]`, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// The address to listen on; an empty one means none.
    pub listen: String,
    /// Whether permits are served too, beside health and metrics.
    pub front: bool,
    /// Whether the front has a page for people, too.
    pub page: bool,
    /// The queues of jobs that the page shows.
    pub jobs: Vec<Name>,
    /// The account with these queues, if it is not the scheduler's.
    pub jobs_nats: Option<NatsTable>,
    /// The names of this scheduler, beside its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The source of tokens, of which each client of the front has to show one.
    pub tokens: Option<TokenSource>,
    /// The largest number of connections with a request under way.
    pub max_connections: usize,
    /// Whether TLS ends before this scheduler.
    pub behind_tls: bool,
    /// The certificate that clients see. Without it, connections are not encrypted.
    pub tls: Option<CertificateFiles>,
    /// The settings of the check for reverse proxies, if it is served.
    pub check: Option<CheckSettings>,
}

impl HttpSettings {
    /// Checks that the front may be served at `listen`, which may also be empty.
    ///
    /// # Errors
    /// If it is no address, or if other hosts would reach the front without a token.
    pub fn check_address(&self) -> anyhow::Result<()> {
        match self.listen.parse::<SocketAddr>() {
            Ok(address) => self.check_reach(address.ip()),
            Err(_) => checked_listen(&self.listen).map_err(anyhow::Error::msg),
        }
    }

    /// Checks that the front may be served at `address`.
    ///
    /// # Errors
    /// If other hosts would reach it without a token.
    pub fn check_reach(&self, address: IpAddr) -> anyhow::Result<()> {
        if address.to_canonical().is_loopback() || !self.front || self.tokens.is_some() {
            return Ok(());
        }
        bail!(
            "`http.listen`: at {address} others than this host reach /v1 and /check, and no token is asked for; set `http.token_env`, \
             `http.token_file` or `http.tokens_file`, listen at 127.0.0.1, or leave health and metrics alone with `front = false`"
        )
    }

    /// Returns the URL at which clients reach `address`.
    #[must_use]
    pub fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    /// Returns whether tokens and permits reach `address` in the clear, over a network.
    #[must_use]
    pub fn is_in_the_clear(&self, address: IpAddr) -> bool {
        let is_safe = address.to_canonical().is_loopback() || self.tls.is_some() || self.behind_tls;
        self.front && !is_safe
    }
}

/// Checks that `listen` is an address or a host with a port, or empty.
pub(super) fn checked_listen(listen: &str) -> Result<(), String> {
    match listen.is_empty() || listen.parse::<SocketAddr>().is_ok() || has_host_and_port(listen) {
        true => Ok(()),
        false => Err(format!("`http.listen`: {listen:?} is no address with a port, like \"127.0.0.1:9480\"")),
    }
}

fn has_host_and_port(listen: &str) -> bool {
    let parts = listen.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && !host.contains([':', ' ']) && port.parse::<u16>().is_ok())
}

/// The source of the front's tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// One token, whose holder may ask for everything.
    One(SecretSource),
    /// A file of tokens, each with what its holder may ask for.
    Several(PathBuf),
}

/// `[http.check]`, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSettings {
    /// The resource of the requests.
    pub resource: Name,
    /// The class of the requests; by default that of the resource.
    pub class: Option<Name>,
    /// The cost of each request by unit, besides one of `requests`.
    pub cost: Vec<(String, UnitCost)>,
    /// How long an answer may be held back before it is a 429; if `None`, not at all.
    pub throttle: Option<Span>,
    /// The answer while no scheduler answers.
    pub on_unavailable: OnUnavailable,
    /// How the original request is read.
    pub origin: OriginSettings,
}

/// How a request is read: its labels, and the proxies that are believed about its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginSettings {
    /// The proxies whose headers on the origin of a request count.
    pub trusted_proxies: Vec<IpNet>,
    /// The number of proxies that have added an address; if `None`, all trusted ones are skipped.
    pub trusted_hops: Option<usize>,
    /// Whether equivalent spellings of a path become one.
    pub normalise: bool,
    /// The labels and their sources.
    pub labels: Vec<(String, LabelSource)>,
}

/// The answer to a reverse proxy while no scheduler answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnavailable {
    /// 503.
    #[default]
    Refuse,
    /// 200: calls go through uncounted.
    Allow,
}

/// The source of a label's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelSource {
    /// A header, or a parameter in the query, of the original request.
    Stated(Stated),
    /// The path of the original request, without its query.
    Path,
    /// The method of the original request.
    Method,
    /// The address of the original client.
    ClientAddress,
    /// The name in the certificate that the client of a proxy has shown.
    ClientCertificate,
}

impl Default for HttpSettings {
    fn default() -> Self {
        HttpSettings {
            listen: "127.0.0.1:9480".to_owned(),
            front: true,
            page: true,
            jobs: Vec::new(),
            jobs_nats: None,
            // The name that the shipped configuration of nginx sends.
            hosts: vec!["rampmeter".to_owned()],
            tokens: None,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            behind_tls: false,
            tls: None,
            check: None,
        }
    }
}

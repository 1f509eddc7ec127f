//! What is served over HTTP, and to whom.

use crate::provider::SecretPlace;
use axum::http::HeaderName;
use ipnet::IpNet;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;

/// Connections at once, if nobody says otherwise: far more than a few reverse proxies keep open, and room for long polls.
pub const DEFAULT_MAX_CONNECTIONS: usize = 4096;

/// `[http]`, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Where; nowhere if it is empty.
    pub listen: String,
    /// Whether permits are given here, beside health and metrics.
    pub front: bool,
    /// The secret that the front's clients have to show.
    pub token: Option<SecretPlace>,
    /// Connections at once.
    pub max_connections: usize,
    /// What reverse proxies ask, if they may.
    pub check: Option<CheckSettings>,
}

/// `[http.check]`, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSettings {
    /// The resource that is asked.
    pub resource: Name,
    /// In which class.
    pub class: Option<Name>,
    /// How long an answer may be held back before it is a 429; not at all without.
    pub throttle: Option<Span>,
    /// What to say when no scheduler answers.
    pub on_unavailable: OnUnavailable,
    /// Whose word counts for where a request comes from.
    pub trusted_proxies: Vec<IpNet>,
    /// The labels, and where each is taken from.
    pub labels: Vec<(String, LabelSource)>,
}

/// What to say to a reverse proxy when no scheduler answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnavailable {
    /// 503.
    #[default]
    Refuse,
    /// 200: calls go through uncounted.
    Allow,
}

/// Where the value of a label is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelSource {
    /// A header of the original request.
    Header(HeaderName),
    /// The path of the original request, without its query.
    Path,
    /// Its method.
    Method,
    /// The address that it came from.
    ClientAddress,
}

impl Default for HttpSettings {
    fn default() -> Self {
        HttpSettings {
            listen: "127.0.0.1:9480".to_owned(),
            front: true,
            token: None,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            check: None,
        }
    }
}

//! The messages of NATS' own discovery (ADR-32), as `nats micro` reads them.

use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use serde::Serialize;
use std::collections::BTreeMap;

/// The name under which schedulers answer.
pub(crate) const SERVICE: &str = "rampmeter";

/// What `$SRV` subjects ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Ping,
    Info,
    Stats,
}

impl Verb {
    /// The subjects of such questions: to all services, to all schedulers, and to one of them.
    pub(crate) fn subjects(self, id: &str) -> [String; 3] {
        let verb = match self {
            Verb::Ping => "PING",
            Verb::Info => "INFO",
            Verb::Stats => "STATS",
        };
        [format!("$SRV.{verb}"), format!("$SRV.{verb}.{SERVICE}"), format!("$SRV.{verb}.{SERVICE}.{id}")]
    }
}

/// The service that answers. Every answer begins with this.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServiceIdentity {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    id: String,
    version: &'static str,
    metadata: BTreeMap<&'static str, String>,
}

impl ServiceIdentity {
    /// The answer to a ping: the identity and no more.
    pub(crate) fn ping(id: &str, metadata: BTreeMap<&'static str, String>) -> Self {
        let kind = "io.nats.micro.v1.ping_response";
        ServiceIdentity { kind, name: SERVICE, id: id.to_owned(), version: env!("CARGO_PKG_VERSION"), metadata }
    }
}

/// The answer to `$SRV.INFO`.
#[derive(Debug, Serialize)]
pub(crate) struct InfoResponse {
    #[serde(flatten)]
    identity: ServiceIdentity,
    description: &'static str,
    endpoints: Vec<EndpointInfo>,
}

impl InfoResponse {
    pub(crate) fn new(identity: ServiceIdentity, endpoints: Vec<EndpointInfo>) -> Self {
        let identity = ServiceIdentity { kind: "io.nats.micro.v1.info_response", ..identity };
        InfoResponse { identity, description: "permits for rate-limited APIs", endpoints }
    }
}

/// The answer to `$SRV.STATS`.
#[derive(Debug, Serialize)]
pub(crate) struct StatsResponse {
    #[serde(flatten)]
    identity: ServiceIdentity,
    started: String,
    endpoints: Vec<EndpointStats>,
}

impl StatsResponse {
    pub(crate) fn new(identity: ServiceIdentity, started: String, endpoints: Vec<EndpointStats>) -> Self {
        let identity = ServiceIdentity { kind: "io.nats.micro.v1.stats_response", ..identity };
        StatsResponse { identity, started, endpoints }
    }
}

/// A subject that is served.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EndpointInfo {
    pub(crate) name: String,
    pub(crate) subject: String,
    /// Empty: only the leader subscribes, so that no group has to choose.
    queue_group: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<&'static str, String>,
}

impl EndpointInfo {
    pub(crate) fn new(name: &str, subject: String) -> Self {
        EndpointInfo { name: name.to_owned(), subject, queue_group: "", metadata: BTreeMap::new() }
    }

    /// The endpoint called `name` of a resource.
    pub(crate) fn of_resource(name: &str, resource: &Name, subject: String) -> Self {
        let metadata = BTreeMap::from([("resource", resource.to_string())]);
        EndpointInfo { name: format!("{name}-{resource}"), metadata, ..EndpointInfo::new(name, subject) }
    }
}

/// What was served there. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EndpointStats {
    name: String,
    subject: String,
    queue_group: &'static str,
    num_requests: u64,
    num_errors: u64,
    last_error: String,
    processing_time: u64,
    average_processing_time: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<EndpointData>,
}

/// What was counted of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServedRequests {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) nanos: u64,
}

/// The state of a resource, shown with its endpoint for permits.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EndpointData {
    pub(crate) epoch: Epoch,
    /// How many requests wait.
    pub(crate) queued: u64,
    /// What each limit has left.
    pub(crate) level: BTreeMap<Name, f64>,
    /// The limit that delays the next request, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limited_by: Option<Name>,
    /// Why that limit delays it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
}

impl EndpointStats {
    pub(crate) fn new(endpoint: EndpointInfo, served: ServedRequests, last_error: &str) -> Self {
        let EndpointInfo { name, subject, queue_group, .. } = endpoint;
        let ServedRequests { requests, errors, nanos } = served;
        EndpointStats {
            name,
            subject,
            queue_group,
            num_requests: requests,
            num_errors: errors,
            last_error: last_error.to_owned(),
            processing_time: nanos,
            average_processing_time: nanos.checked_div(requests).unwrap_or(0),
            data: None,
        }
    }

    pub(crate) fn with(self, data: EndpointData) -> Self {
        EndpointStats { data: Some(data), ..self }
    }
}

//! The messages of NATS' own discovery (ADR-32), as `nats micro` reads them.

use crate::permits::answers::tally::Handled;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use serde::Serialize;
use std::collections::BTreeMap;

/// The name under which schedulers answer.
pub(crate) const SERVICE: &str = "rampmeter";

/// An answer of the service. That to a ping has no optional field.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServiceAnswer {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    pub(crate) id: String,
    pub(crate) version: &'static str,
    pub(crate) metadata: BTreeMap<&'static str, String>,
    /// For `$SRV.INFO`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<&'static str>,
    /// For `$SRV.STATS`: when the scheduler started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<String>,
    /// For `$SRV.INFO` and `$SRV.STATS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoints: Option<Vec<Endpoint>>,
}

impl ServiceAnswer {
    /// The answer to a ping.
    pub(crate) fn ping(id: &str, metadata: BTreeMap<&'static str, String>) -> Self {
        ServiceAnswer {
            kind: "io.nats.micro.v1.ping_response",
            name: SERVICE,
            id: id.to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            metadata,
            description: None,
            started: None,
            endpoints: None,
        }
    }
}

/// A subject that is served.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Endpoint {
    pub(crate) name: String,
    pub(crate) subject: String,
    /// Empty: only the leader subscribes, so that no group has to choose.
    queue_group: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<&'static str, String>,
    #[serde(flatten)]
    stats: Option<EndpointStats>,
}

/// What was served there. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize)]
struct EndpointStats {
    num_requests: u64,
    num_errors: u64,
    last_error: &'static str,
    processing_time: u64,
    average_processing_time: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<EndpointData>,
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

impl Endpoint {
    pub(crate) fn new(name: &str, subject: String) -> Self {
        Endpoint { name: name.to_owned(), subject, queue_group: "", metadata: BTreeMap::new(), stats: None }
    }

    /// The endpoint called `name` of a resource.
    pub(crate) fn of_resource(name: &str, resource: &Name, subject: String) -> Self {
        let metadata = BTreeMap::from([("resource", resource.to_string())]);
        Endpoint { name: format!("{name}-{resource}"), metadata, ..Endpoint::new(name, subject) }
    }

    /// The endpoint with what it has served.
    pub(crate) fn with(self, handled: Handled, data: Option<EndpointData>) -> Self {
        let Handled { messages, refused, last_refusal, spent } = handled;
        let stats = EndpointStats {
            num_requests: messages,
            num_errors: refused,
            last_error: last_refusal.map_or("", Code::as_str),
            processing_time: spent.nanos(),
            average_processing_time: spent.nanos().checked_div(messages).unwrap_or(0),
            data,
        };
        Endpoint { metadata: BTreeMap::new(), stats: Some(stats), ..self }
    }
}

//! The state that all tasks of a process share.

use crate::denials::Denials;
use crate::health::Health;
use crate::limits::differences::Differences;
use crate::peers::Peers;
use crate::permits::watch::stall_detector::ProcessWatch;
use async_nats::Client;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::subject::Subjects;
use rampmeter_store::Store;
use rampmeter_telemetry::Spans;
use std::sync::Arc;

/// The connections, places and names of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProcessContext {
    /// The connection for everything but permits.
    pub client: Client,
    /// Operations that the server has denied on `client`.
    pub denials: Denials,
    /// The store of state records and uses.
    pub store: Store,
    /// The subjects of this deployment.
    pub subjects: Subjects,
    /// The state of each resource at this scheduler, for status, metrics and health.
    pub health: Arc<Health>,
    /// The other schedulers.
    pub peers: Arc<Peers>,
    /// The configuration fingerprints of all schedulers, compared.
    pub differences: Arc<Differences>,
    /// The clock of this process.
    pub clock: Clock,
    /// Detects standstills of this process.
    pub process: Arc<ProcessWatch>,
    /// The name of this scheduler process.
    pub leader: String,
    /// The sender of spans, if this process sends any.
    pub spans: Option<Spans>,
}

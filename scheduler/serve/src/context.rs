//! What all tasks of a process share.

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
    /// What the server does not permit on it.
    pub denials: Denials,
    /// Where state is kept.
    pub store: Store,
    /// Where to subscribe.
    pub subjects: Subjects,
    /// The parts that status, metrics and health show.
    pub health: Arc<Health>,
    /// The other schedulers.
    pub peers: Arc<Peers>,
    /// The other schedulers that count differently, and how this one counts.
    pub differences: Arc<Differences>,
    /// The clock of this process.
    pub clock: Clock,
    /// Tells when this process stood still.
    pub process: Arc<ProcessWatch>,
    /// The name of this scheduler process.
    pub leader: String,
    /// Where spans go, if this process sends any.
    pub spans: Option<Spans>,
}

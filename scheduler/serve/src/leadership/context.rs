//! What all leaders of a process share.

use crate::denials::Denials;
use crate::health::Health;
use crate::limits::differences::Differences;
use crate::peers::Peers;
use crate::permits::permit_thread::PermitThreads;
use crate::permits::watch::stall_detector::ProcessWatch;
use async_nats::Client;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::subject::Subjects;
use rampmeter_store::Store;
use rampmeter_telemetry::Spans;
use std::sync::Arc;

/// The connections, places and names that every leader of this process uses. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LeaderContext {
    /// The connection for everything but permits.
    pub client: Client,
    /// What the server does not permit on it.
    pub denials: Denials,
    /// Where state is kept.
    pub store: Store,
    /// Where loops run.
    pub permits: PermitThreads,
    /// Where to subscribe.
    pub subjects: Subjects,
    /// The parts that status, metrics and health show.
    pub health: Arc<Health>,
    /// The other schedulers.
    pub peers: Arc<Peers>,
    /// The other schedulers that count differently.
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

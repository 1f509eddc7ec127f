//! How the rest of the process reaches a permit loop.

use crate::messages::inbound::Inbound;
use crate::permits::answers::loop_request::{LoopRequest, PendingCheckpoint, Report};
use rampmeter_protocol::name::Name;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// How long a report may take.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// Orders that may be under way: a report or two, a checkpoint, and the handover.
const ORDERS: usize = 16;
/// Messages from this process that may be under way. All other requests go over NATS.
const INBOUND: usize = 1024;

/// Publishes the handle of a resource's loop, while this process leads the resource.
pub type LoopPublisher = watch::Sender<Option<LoopHandle>>;

/// Sees the handle of a resource's loop.
pub type LoopWatch = watch::Receiver<Option<LoopHandle>>;

/// The two ways into a loop of the same process.
#[derive(Clone, Debug)]
pub struct LoopHandle {
    /// Orders to the loop.
    pub orders: mpsc::Sender<LoopRequest>,
    /// Messages, as over NATS.
    pub inbound: mpsc::Sender<Inbound>,
}

/// The loop's ends of its channels.
#[derive(Debug)]
pub struct LoopChannels {
    /// What comes from the rest of the process.
    pub inbox: LoopInbox,
    /// Where checkpoints go.
    pub checkpoints: mpsc::Sender<PendingCheckpoint>,
    /// Hears when permits are granted.
    pub opened: oneshot::Sender<()>,
}

/// What comes to a loop from the rest of its process.
#[derive(Debug)]
pub struct LoopInbox {
    /// Orders to the loop.
    pub orders: mpsc::Receiver<LoopRequest>,
    /// Messages of this process.
    pub inbound: mpsc::Receiver<Inbound>,
}

/// The leader's ends of the same channels.
#[derive(Debug)]
pub struct LeaderChannels {
    /// The ways into the loop.
    pub handle: LoopHandle,
    /// Checkpoints to be written.
    pub checkpoints: mpsc::Receiver<PendingCheckpoint>,
    /// Resolves when permits are granted.
    pub opened: oneshot::Receiver<()>,
}

/// The channels between a loop and its leader.
#[must_use]
pub fn channels() -> (LeaderChannels, LoopChannels) {
    let (orders, orders_taken) = mpsc::channel(ORDERS);
    let (inbound, inbound_taken) = mpsc::channel(INBOUND);
    // One checkpoint is written at a time.
    let (checkpoints, pending) = mpsc::channel(1);
    let (open, opened) = oneshot::channel();
    (
        LeaderChannels { handle: LoopHandle { orders, inbound }, checkpoints: pending, opened },
        LoopChannels { inbox: LoopInbox { orders: orders_taken, inbound: inbound_taken }, checkpoints, opened: open },
    )
}

/// Asks a resource's loop for reports, while this process leads the resource.
#[derive(Clone, Debug)]
pub struct Reporter {
    resource: Name,
    led: LoopWatch,
}

impl Reporter {
    /// A reporter of the loop of `resource` that `led` shows.
    #[must_use]
    pub fn new(resource: Name, led: LoopWatch) -> Self {
        Reporter { resource, led }
    }

    /// The resource of the loop.
    #[must_use]
    pub fn resource(&self) -> &Name {
        &self.resource
    }

    /// Whether this process leads the resource.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.led.borrow().is_some()
    }

    /// A report; `None` if another scheduler leads, or the loop does not answer in time.
    pub async fn report(&self) -> Option<Report> {
        let LoopHandle { orders, .. } = self.led.borrow().clone()?;
        let (to, report) = oneshot::channel();
        orders.send(LoopRequest::Report(to)).await.ok()?;
        tokio::time::timeout(REPORT_TIMEOUT, report).await.ok()?.ok()
    }
}

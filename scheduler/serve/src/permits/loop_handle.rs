//! How the rest of the process reaches a permit loop.

use crate::messages::inbound::Inbound;
use crate::permits::answers::loop_request::{LoopRequest, LoopState, Report};
use rampmeter_protocol::name::Name;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// How long a loop may take to tell something.
const ANSWER: Duration = Duration::from_secs(1);
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
    /// Orders to the loop.
    pub orders: mpsc::Receiver<LoopRequest>,
    /// Messages of this process.
    pub inbound: mpsc::Receiver<Inbound>,
    /// Where checkpoints go.
    pub checkpoints: mpsc::Sender<LoopState>,
    /// Hears when permits are granted.
    pub opened: oneshot::Sender<()>,
}

/// The leader's ends of the same channels.
#[derive(Debug)]
pub struct LeaderChannels {
    /// The ways into the loop.
    pub handle: LoopHandle,
    /// Checkpoints to be written.
    pub checkpoints: mpsc::Receiver<LoopState>,
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
        LoopChannels { orders: orders_taken, inbound: inbound_taken, checkpoints, opened: open },
    )
}

/// The orders to the loop of the next term; `None` if `led` is closed.
pub(crate) async fn next_term(led: &mut LoopWatch) -> Option<mpsc::Sender<LoopRequest>> {
    led.wait_for(Option::is_some).await.ok()?.as_ref().map(|handle| handle.orders.clone())
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
        ask(&orders, LoopRequest::Report).await
    }
}

/// The answer to a question to the loop; `None` if the loop has ended, or does not answer in time.
pub(crate) async fn ask<A>(
    orders: &mpsc::Sender<LoopRequest>,
    question: impl FnOnce(oneshot::Sender<A>) -> LoopRequest,
) -> Option<A> {
    let (to, answer) = oneshot::channel();
    orders.send(question(to)).await.ok()?;
    tokio::time::timeout(ANSWER, answer).await.ok()?.ok()
}

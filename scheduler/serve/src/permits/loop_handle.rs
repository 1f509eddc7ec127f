//! Channels between a permit loop and the rest of the process.

use crate::messages::inbound::Inbound;
use crate::permits::answers::loop_request::{LoopRequest, LoopState, Report};
use rampmeter_protocol::name::Name;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// How long a loop may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// Capacity for orders: a report or two, a checkpoint, and the handover.
const ORDERS: usize = 16;
/// Capacity for messages from this process. All other requests go over NATS.
const INBOUND: usize = 1024;

/// Publishes the handle of a resource's loop while this process leads the resource.
pub type LoopPublisher = watch::Sender<Option<LoopHandle>>;

/// Receives the handle of a resource's loop.
pub type LoopWatch = watch::Receiver<Option<LoopHandle>>;

/// Senders to a permit loop of this process.
#[derive(Clone, Debug)]
pub struct LoopHandle {
    /// Orders to the loop.
    pub orders: mpsc::Sender<LoopRequest>,
    /// Messages, like those over NATS.
    pub inbound: mpsc::Sender<Inbound>,
}

/// The loop's ends of its channels.
#[derive(Debug)]
pub struct LoopChannels {
    /// Orders to the loop.
    pub orders: mpsc::Receiver<LoopRequest>,
    /// Messages of this process.
    pub inbound: mpsc::Receiver<Inbound>,
    /// Checkpoints to be written.
    pub checkpoints: mpsc::Sender<LoopState>,
    /// Signals that permits are granted.
    pub opened: oneshot::Sender<()>,
}

/// The leader's ends of these channels.
#[derive(Debug)]
pub struct LeaderChannels {
    /// The senders to the loop.
    pub handle: LoopHandle,
    /// Checkpoints to be written.
    pub checkpoints: mpsc::Receiver<LoopState>,
    /// Resolves once permits are granted.
    pub opened: oneshot::Receiver<()>,
}

/// Creates the channels between a loop and its leader.
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

/// Waits for the loop of the next term, and returns its sender of orders. `None` if `led` is closed.
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
    /// Creates a reporter of `resource` for the loop that `led` receives.
    #[must_use]
    pub fn new(resource: Name, led: LoopWatch) -> Self {
        Reporter { resource, led }
    }

    /// Returns the resource.
    #[must_use]
    pub fn resource(&self) -> &Name {
        &self.resource
    }

    /// Returns whether this process leads the resource.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.led.borrow().is_some()
    }

    /// Requests a report. `None` if another scheduler leads, or the loop does not answer in time.
    pub async fn report(&self) -> Option<Report> {
        let LoopHandle { orders, .. } = self.led.borrow().clone()?;
        ask(&orders, LoopRequest::Report).await
    }
}

/// Sends a question to the loop, and returns the answer. `None` if the loop has ended or is too slow.
pub(crate) async fn ask<A>(
    orders: &mpsc::Sender<LoopRequest>,
    question: impl FnOnce(oneshot::Sender<A>) -> LoopRequest,
) -> Option<A> {
    let (to, answer) = oneshot::channel();
    orders.send(question(to)).await.ok()?;
    tokio::time::timeout(ANSWER, answer).await.ok()?.ok()
}

//! What all slots of a worker use.

use crate::store::Store;
use crate::worker::retry_policy::RetryPolicy;
use crate::{Attempt, Failure};
use futures::future::BoxFuture;
use rampmeter_worker_sdk::{Outcome, Resource};
use tokio::sync::watch;

/// The result of a handler's run.
pub(crate) type HandlerResult = Result<Outcome, Failure>;

pub(crate) type Handler = Box<dyn Fn(Attempt) -> BoxFuture<'static, HandlerResult> + Send + Sync>;

/// Shared by all slots of a worker.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) resource: Resource,
    pub(crate) group_label: String,
    pub(crate) policy: RetryPolicy,
    /// How many jobs of a lane may run at once: at least one.
    pub(crate) concurrency: usize,
    pub(crate) handler: Handler,
    /// Whether the worker is to take no more jobs.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }
}

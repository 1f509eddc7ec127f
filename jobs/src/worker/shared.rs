//! State that all slots of a worker share.

use crate::store::Store;
use crate::worker::retry_policy::RetryPolicy;
use crate::{Attempt, Failure};
use futures::future::BoxFuture;
use rampmeter_worker_sdk::{Outcome, Resource};
use tokio::sync::watch;

pub(crate) type HandlerResult = Result<Outcome, Failure>;

pub(crate) type Handler = Box<dyn Fn(Attempt) -> BoxFuture<'static, HandlerResult> + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) resource: Resource,
    pub(crate) group_label: String,
    pub(crate) policy: RetryPolicy,
    /// The number of jobs of a lane that may run at once, at least one.
    pub(crate) concurrency: usize,
    pub(crate) handler: Handler,
    /// Becomes `true` when the worker is to take no more jobs.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }
}

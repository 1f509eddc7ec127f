//! What all slots of a worker use.

use super::store::Store;
use super::verdict::RetryPolicy;
use super::{Attempt, Failure};
use crate::{Outcome, Resource};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a handler's run comes to.
pub(super) type Ended = Result<Outcome, Failure>;

pub(super) type Handler = Box<dyn Fn(Attempt) -> BoxFuture<'static, Ended> + Send + Sync>;

/// Shared by all slots of a worker.
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) resource: Resource,
    pub(super) group_label: String,
    pub(super) policy: RetryPolicy,
    pub(super) handler: Handler,
    pub(super) stopping: Arc<AtomicBool>,
}

impl Shared {
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

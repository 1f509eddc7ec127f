//! The classes of a queue that a producer has looked up.

use crate::QueueError;
use crate::store::Store;
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use rampmeter_protocol::name::Name;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bound on the remembered classes. Further ones are looked up each time.
const MANY: usize = 64;

/// Classes that a queue has. A queue never loses a class.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownClasses {
    /// Locked for one look-up.
    found: Arc<Mutex<BTreeSet<Name>>>,
}

impl KnownClasses {
    /// Fails with [`QueueErrorKind::Missing`](crate::QueueErrorKind::Missing) if the queue lacks `class`, since its
    /// workers would never see the job. A producer without the right to look publishes unchecked.
    pub(crate) async fn check(&self, store: &Store, class: Option<&Name>) -> Result<(), QueueError> {
        let Some(class) = class.filter(|class| !self.found().contains(*class)) else { return Ok(()) };
        let found = store.lanes.consumer_info(store.layout.lane_leases_name(Some(class))).await;
        match found.map_err(|error| error.kind()) {
            Err(ConsumerInfoErrorKind::NotFound) => Err(QueueError::without_class(store.layout.queue(), class)),
            Ok(_) | Err(_) => {
                let mut found = self.found();
                if found.len() < MANY {
                    found.insert(class.clone());
                }
                Ok(())
            }
        }
    }

    fn found(&self) -> MutexGuard<'_, BTreeSet<Name>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

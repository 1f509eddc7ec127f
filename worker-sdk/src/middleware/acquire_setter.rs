//! Derives a permit's cost, class, labels and deadline from a request; by default nothing.

use crate::permit::acquire::Acquire;
use std::fmt;
use std::sync::Arc;

type Set<R> = dyn Fn(Acquire, &R) -> Acquire + Send + Sync;

pub(crate) struct AcquireSetter<R>(Option<Arc<Set<R>>>);

impl<R> AcquireSetter<R> {
    pub(crate) const USUAL: Self = AcquireSetter(None);

    pub(crate) fn new(set: impl Fn(Acquire, &R) -> Acquire + Send + Sync + 'static) -> Self {
        AcquireSetter(Some(Arc::new(set)))
    }

    pub(crate) fn set(&self, acquire: Acquire, request: &R) -> Acquire {
        match &self.0 {
            Some(set) => set(acquire, request),
            None => acquire,
        }
    }
}

impl<R> Clone for AcquireSetter<R> {
    fn clone(&self) -> Self {
        AcquireSetter(self.0.clone())
    }
}

impl<R> fmt::Debug for AcquireSetter<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "AcquireSetter(set)" } else { "AcquireSetter(usual)" })
    }
}

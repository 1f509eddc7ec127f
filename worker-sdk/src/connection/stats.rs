//! Counters of a client.

use std::sync::atomic::{AtomicU64, Ordering};

/// Totals of one client since it connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Permits that callers received.
    pub granted: u64,
    /// Those of them that the client granted itself because no scheduler answered.
    pub local: u64,
    /// Requests that ended without a permit: refused, late, unanswered, or closed.
    pub denied: u64,
    /// Permits given back unused.
    pub returned: u64,
    /// Calls that the upstream answered with 429.
    pub throttled: u64,
    /// Refused renewals of calls in flight, whose places other calls may have.
    pub unrenewed: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) granted: AtomicU64,
    pub(crate) local: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) throttled: AtomicU64,
    pub(crate) unrenewed: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> Stats {
        Stats {
            granted: self.granted.load(Ordering::Relaxed),
            local: self.local.load(Ordering::Relaxed),
            denied: self.denied.load(Ordering::Relaxed),
            returned: self.returned.load(Ordering::Relaxed),
            throttled: self.throttled.load(Ordering::Relaxed),
            unrenewed: self.unrenewed.load(Ordering::Relaxed),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

//! Counts requests that are refused for lack of a right, and logs them at most once a minute.

use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::log_throttle::LogThrottle;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

rampmeter_protocol::named! {
    /// What a refused request lacks, named by the reason in metrics and the log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum Lacks {
        /// A valid token.
        Token = "unauthorized",
        /// The token lacks the right.
        Right = "forbidden",
        /// A sender other than a foreign web page.
        Program = "web_page",
    }
}

/// The refused requests, shared by all clones.
#[derive(Clone, Debug)]
pub(super) struct AccessLog(Arc<Refusals>);

#[derive(Debug)]
struct Refusals {
    counts: [AtomicU64; Lacks::ALL.len()],
    clock: Clock,
    /// Locked while it decides on one line.
    throttle: Mutex<LogThrottle<Lacks>>,
}

impl AccessLog {
    pub(super) fn new(clock: Clock) -> Self {
        AccessLog(Arc::new(Refusals { counts: Default::default(), clock, throttle: Mutex::default() }))
    }

    /// Counts and logs a refused request of the client at `address`. `token` is the name of its token.
    pub(super) fn note(&self, lacks: Lacks, address: IpAddr, token: Option<&str>) {
        let Refusals { counts, clock, throttle } = &*self.0;
        counts[lacks as usize].fetch_add(1, Ordering::Relaxed);
        let left_out = throttle.lock().unwrap_or_else(PoisonError::into_inner).admit(clock.now(), lacks);
        if let Some(left_out) = left_out {
            let reason = lacks.as_str();
            tracing::warn!(reason, %address, token, left_out, "an HTTP request is refused");
        }
    }

    /// Returns the number of refused requests, by reason.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Lacks::ALL.into_iter().map(|lacks| (lacks.as_str(), self.0.counts[lacks as usize].load(Ordering::Relaxed)))
    }
}

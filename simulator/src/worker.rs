//! One worker.

use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

/// A worker's name: its number.
pub(crate) type WorkerId = usize;

/// One worker.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) fleet: usize,
    /// With whom it shares.
    pub(crate) client: Option<Arc<str>>,
    /// Calls it may still make; `None` if it is not to count them.
    pub(crate) calls_left: Option<u32>,
    pub(crate) permits: u64,
    /// Calls of its current request that were answered with 429.
    pub(crate) attempts: u32,
    /// How long its scheduler first expected it to wait.
    pub(crate) estimate: Option<Span>,
    pub(crate) state: State,
}

/// What a worker is at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has not asked, or has its response.
    Thinking,
    /// It has asked for a permit.
    Waiting {
        /// The permit.
        id: PermitId,
        /// When it asked.
        since: Time,
    },
    /// Its permit has come, and it is to make its call or has made it.
    Calling {
        /// The permit.
        id: PermitId,
        /// When it first asked.
        since: Time,
    },
    /// It has stopped.
    Gone,
}

impl Worker {
    pub(crate) fn new(fleet: usize, calls: Option<u32>, client: Option<Arc<str>>) -> Self {
        Worker { fleet, client, calls_left: calls, permits: 0, attempts: 0, estimate: None, state: State::Thinking }
    }

    /// Waits for another permit, since `since`, and names it.
    pub(crate) fn next_permit(&mut self, number: WorkerId, since: Time) -> PermitId {
        self.permits += 1;
        let id = PermitId::generated(number as u64, self.permits);
        self.state = State::Waiting { id: id.clone(), since };
        id
    }

    /// Whether it has another call to make.
    pub(crate) fn has_more(&self) -> bool {
        self.calls_left != Some(0)
    }
}

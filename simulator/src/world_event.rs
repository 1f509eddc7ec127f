//! The events of a world.

use crate::outcome::Levels;
use crate::simulated_scheduler::ReplyTo;
use crate::upstream::Reply;
use crate::worker::{Address, WantedCall};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_session::AskNumber;
use std::sync::Arc;

/// The events of a world.
#[derive(Debug)]
pub(crate) enum WorldEvent {
    /// A worker's pause after a response is over.
    Thought(Address),
    /// Work arrives for a fleet.
    Arrived { fleet: usize },
    /// A worker's pause after a 429 is over, and it repeats its call.
    Paused(Address),
    /// A timer of a worker's session fires.
    Woken(Address),
    /// A message reaches the scheduler, on the subject of permits.
    Asked { reply: ReplyTo, payload: Vec<u8> },
    /// A message reaches the scheduler, on the subject of settles.
    Settled { payload: Vec<u8> },
    /// An answer of the scheduler reaches a worker.
    Told { reply: ReplyTo, payload: Vec<u8> },
    /// A broadcast of the scheduler reaches a worker.
    Heard { by: Address, payload: Arc<[u8]> },
    /// A request reaches the shared counter.
    Counted { from: Address, ask: AskNumber },
    /// A worker may call after this delay.
    Permitted { to: Address, ask: AskNumber, delay: Span },
    /// The start of a worker's call is due.
    Started { by: Address, ask: AskNumber },
    /// A call reaches the upstream.
    Called { by: Address, ask: AskNumber, wanted: WantedCall, wait: Span, request: Option<usize> },
    /// A response reaches its worker.
    Answered { to: Address, ask: AskNumber, reply: Reply },
    /// The upstream's policies change.
    Changed { number: usize },
    /// The scheduler's question for levels reaches the upstream.
    Polled { asked: Time },
    /// The answer reaches the scheduler.
    Read { asked: Time, levels: Levels },
    /// Something happens to the scheduler.
    Incident { number: usize },
    /// A worker is told to stop.
    Stopped { worker: usize },
    /// A worker dies.
    Crashed(Address),
    /// A dead worker starts anew.
    Revived(Address),
}

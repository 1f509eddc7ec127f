//! All that happens in a world, and to whom.

use crate::outcome::Levels;
use crate::simulated_scheduler::ReplyTo;
use crate::upstream::Reply;
use crate::worker::{Address, Wish};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_session::AskNumber;
use std::sync::Arc;

/// All that happens, and to whom.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A worker has thought enough.
    Thought(Address),
    /// Work comes for a fleet.
    Arrived { fleet: usize },
    /// A worker has paused enough after a 429, and tries again what it wanted then.
    Paused(Address),
    /// A worker's session has something to do by itself.
    Woken(Address),
    /// A message reaches the scheduler, on the subject of permits.
    Asked { reply: ReplyTo, payload: Vec<u8> },
    /// A message reaches the scheduler, on the subject of settles.
    Settled { payload: Vec<u8> },
    /// An answer of the scheduler reaches a worker.
    Told { reply: ReplyTo, payload: Vec<u8> },
    /// What everybody is told reaches a worker.
    Heard { by: Address, payload: Arc<[u8]> },
    /// A request reaches the counter that everybody shares.
    Counted { from: Address, ask: AskNumber },
    /// A worker may call after this time.
    Permitted { to: Address, ask: AskNumber, delay: Span },
    /// The time for a worker's call has come.
    Started { by: Address, ask: AskNumber },
    /// A call reaches the upstream.
    Called { by: Address, ask: AskNumber, wish: Wish, wait: Span, request: Option<usize> },
    /// The response reaches the worker.
    Answered { to: Address, ask: AskNumber, reply: Reply },
    /// The upstream has other policies from now on.
    Changed { number: usize },
    /// The scheduler's question for levels reaches the upstream.
    Polled { asked: Time },
    /// The answer reaches the scheduler.
    Read { asked: Time, levels: Levels },
    /// A worker is told to stop.
    Stopped { worker: usize },
    /// A worker dies.
    Crashed(Address),
    /// A dead worker starts anew.
    Revived(Address),
}

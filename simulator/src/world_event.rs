//! The events of a world.

use crate::outcome::Levels;
use crate::simulated_scheduler::ReplyTo;
use crate::upstream::Reply;
use crate::workers::worker::{Address, WantedCall};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_session::AskNumber;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) enum WorldEvent {
    /// A worker's pause after a response is over, and it wants its next call.
    ThinkTimeOver(Address),
    /// Work arrives for a fleet.
    WorkArrived { fleet: usize },
    /// A worker's pause after a 429 is over, and it repeats its call.
    PauseOver(Address),
    /// A timer of a worker's session fires.
    SessionTimer(Address),
    /// A message on the subject of permits reaches the scheduler.
    PermitRequestArrived { reply: ReplyTo, payload: Vec<u8> },
    /// A message on the subject of settles reaches the scheduler.
    SettleArrived { payload: Vec<u8> },
    /// An answer of the scheduler reaches a worker.
    AnswerArrived { reply: ReplyTo, payload: Vec<u8> },
    /// A broadcast of the scheduler reaches a worker.
    BroadcastArrived { by: Address, payload: Arc<[u8]> },
    /// A request reaches the shared counter.
    CounterAsked { from: Address, ask: AskNumber },
    /// A worker may call after this delay.
    CallPermitted { to: Address, ask: AskNumber, delay: Span },
    /// The start of a worker's call is due.
    StartDue { by: Address, ask: AskNumber },
    /// A call reaches the upstream.
    CallArrived { by: Address, ask: AskNumber, wanted: WantedCall, wait: Span, request: Option<usize> },
    /// A response reaches its worker.
    ResponseArrived { to: Address, ask: AskNumber, reply: Reply },
    /// The upstream's policies change.
    PoliciesChange { number: usize },
    /// The scheduler's query for levels reaches the upstream.
    LevelsAsked { asked: Time },
    /// The levels reach the scheduler.
    LevelsArrived { asked: Time, levels: Levels },
    /// An incident befalls the scheduler.
    Incident { number: usize },
    /// A worker has to stop.
    WorkerStops { worker: usize },
    /// A worker dies.
    WorkerDies(Address),
    /// A dead worker starts again.
    WorkerRestarts(Address),
}

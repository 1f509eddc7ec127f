//! What the driver is to do, and how much of it there was.

use crate::command::Command;
use crate::refusal::Refusal;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::status::{Counters, RejectionCause};
use std::collections::VecDeque;

/// Commands in their order, and totals since the start of the scheduler.
///
/// Invariant: each refusal of a request that is answered counts once.
#[derive(Debug)]
pub(crate) struct Outbox<R> {
    commands: VecDeque<Command<R>>,
    counters: Counters,
}

impl<R> Outbox<R> {
    pub(crate) fn new() -> Self {
        Outbox { commands: VecDeque::new(), counters: Counters::default() }
    }

    pub(crate) fn push(&mut self, command: Command<R>) {
        self.commands.push_back(command);
    }

    pub(crate) fn refuse(&mut self, to: R, id: Option<PermitId>, refusal: Refusal) {
        self.counters.refused += 1;
        self.push(Command::Refuse { to, id, refusal });
    }

    /// Refuses a settle. A settle that wants no answer is only logged.
    pub(crate) fn refuse_settle(&mut self, to: Option<R>, id: PermitId, refusal: Refusal) {
        self.counters.refused += u64::from(to.is_some());
        self.push(Command::RefuseSettle { to, id, refusal });
    }

    pub(crate) fn pop(&mut self) -> Option<Command<R>> {
        self.commands.pop_front()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    pub(crate) fn count_granted(&mut self) {
        self.counters.granted += 1;
    }

    pub(crate) fn count_settled(&mut self) {
        self.counters.settled += 1;
    }

    pub(crate) fn count_returned(&mut self) {
        self.counters.returned += 1;
    }

    /// Counts a call that the upstream rejected, by its cause.
    pub(crate) fn count_429(&mut self, cause: RejectionCause) {
        self.counters.upstream_429 += 1;
        self.counters.rejections.count(cause);
    }

    /// Counts a statement of one client that is not believed.
    pub(crate) fn count_disbelieved(&mut self) {
        self.counters.disbelieved += 1;
    }
}

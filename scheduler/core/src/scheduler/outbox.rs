//! Commands that the driver has not taken yet.

use crate::command::Command;
use crate::refusal::Refusal;
use rampmeter_protocol::id::PermitId;
use std::collections::VecDeque;

/// Commands in their order.
#[derive(Debug)]
pub(crate) struct Outbox<R>(VecDeque<Command<R>>);

impl<R> Outbox<R> {
    pub(crate) fn new() -> Self {
        Outbox(VecDeque::new())
    }

    pub(crate) fn push(&mut self, command: Command<R>) {
        self.0.push_back(command);
    }

    pub(crate) fn refuse(&mut self, to: R, id: Option<PermitId>, refusal: Refusal) {
        self.push(Command::Refuse { to, id, refusal });
    }

    pub(crate) fn pop(&mut self) -> Option<Command<R>> {
        self.0.pop_front()
    }
}

//! The answers that wait for the store, and the requests that are retried then.

use crate::checkpoint_number::CheckpointNumber;
use crate::event::Ask;
use rampmeter_policy::Bill;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// How long an answer waits for a checkpoint before the request is refused.
pub(super) const TIMEOUT: Span = Span::from_millis(500);

/// Answers that wait for the store, oldest first.
/// Invariant: every request in `asks` has an answer in `answers`. The answer to a cancelled request
/// stays there without its request.
#[derive(Clone, Debug)]
pub(crate) struct PendingAnswers<R> {
    pub(super) answers: VecDeque<PendingAnswer<R>>,
    pub(super) asks: BTreeMap<PermitId, Ask<R>>,
}

#[derive(Clone, Debug)]
pub(super) struct PendingAnswer<R> {
    pub(super) since: Time,
    pub(super) answer: Answer<R>,
}

#[derive(Clone, Debug)]
pub(super) enum Answer<R> {
    /// Retries the request with this id.
    Retry(PermitId),
    /// A promised start, which the store knows once it holds this checkpoint. The serial
    /// distinguishes it from the start of a later permit with the same id.
    Start { to: R, id: PermitId, serial: u64, checkpoint: CheckpointNumber },
}

impl<R> PendingAnswers<R> {
    pub(crate) fn new() -> Self {
        PendingAnswers { answers: VecDeque::new(), asks: BTreeMap::new() }
    }

    pub(super) fn push_ask(&mut self, since: Time, ask: Ask<R>) {
        self.answers.push_back(PendingAnswer { since, answer: Answer::Retry(ask.id.clone()) });
        self.asks.insert(ask.id.clone(), ask);
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        Some(self.answers.front()?.since + TIMEOUT)
    }

    /// Removes an answer that has waited since `since` or longer.
    pub(super) fn pop_since(&mut self, since: Time) -> Option<Answer<R>> {
        self.answers.pop_front_if(|pending| pending.since <= since).map(|pending| pending.answer)
    }

    pub(crate) fn bills(&self) -> impl Iterator<Item = &Bill> {
        self.asks.values().flat_map(|ask| ask.bill.options())
    }
}

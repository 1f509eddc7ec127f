//! Answers that wait for the store.

use crate::event::Ask;
use crate::ids::CheckpointNumber;
use crate::policy::Bill;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// How long an answer waits for a checkpoint, before the request is refused.
const TIMEOUT: Span = Span::from_millis(500);

/// Answers that wait for the store, oldest first.
///
/// Invariant: every request in `asks` has an answer in `answers`. The answer to a cancelled request
/// stays there without its request.
#[derive(Clone, Debug)]
pub(crate) struct PendingAnswers<R> {
    answers: VecDeque<PendingAnswer<R>>,
    asks: BTreeMap<PermitId, Ask<R>>,
}

/// An answer that waits for the store, and since when.
#[derive(Clone, Debug)]
pub(crate) struct PendingAnswer<R> {
    pub(crate) since: Time,
    pub(crate) answer: Answer<R>,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer<R> {
    /// To the request with this id, which is asked again.
    Retry(PermitId),
    /// A promised start, which the store knows once it holds this checkpoint. The serial tells it
    /// from the start of a later permit with the same id.
    Start { to: R, id: PermitId, serial: u64, checkpoint: CheckpointNumber },
}

impl<R> PendingAnswers<R> {
    pub(crate) fn new() -> Self {
        PendingAnswers { answers: VecDeque::new(), asks: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether a request with this id is asked again.
    pub(crate) fn has(&self, id: &PermitId) -> bool {
        self.asks.contains_key(id)
    }

    /// The request with this id that is asked again.
    pub(crate) fn ask_mut(&mut self, id: &PermitId) -> Option<&mut Ask<R>> {
        self.asks.get_mut(id)
    }

    /// Takes the request with this id out, so that it is not asked again.
    pub(crate) fn take_ask(&mut self, id: &PermitId) -> Option<Ask<R>> {
        self.asks.remove(id)
    }

    /// Lets a request wait until it is asked again.
    pub(crate) fn push_ask(&mut self, since: Time, ask: Ask<R>) {
        self.push(PendingAnswer { since, answer: Answer::Retry(ask.id.clone()) });
        self.asks.insert(ask.id.clone(), ask);
    }

    pub(crate) fn push(&mut self, answer: PendingAnswer<R>) {
        self.answers.push_back(answer);
    }

    /// Takes all answers. The caller pushes those again that still have to wait.
    pub(crate) fn take_answers(&mut self) -> VecDeque<PendingAnswer<R>> {
        std::mem::take(&mut self.answers)
    }

    /// Notes that all answers after the first `count` have waited since `since`.
    pub(crate) fn date_back(&mut self, count: usize, since: Time) {
        self.answers.range_mut(count..).for_each(|pending| pending.since = since);
    }

    /// When the oldest answer becomes a refusal.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        Some(self.answers.front()?.since + TIMEOUT)
    }

    /// An answer that has waited for too long.
    pub(crate) fn pop_timed_out(&mut self, now: Time) -> Option<Answer<R>> {
        self.pop_since(now - TIMEOUT)
    }

    /// An answer that has waited since `since` or longer.
    pub(crate) fn pop_since(&mut self, since: Time) -> Option<Answer<R>> {
        self.answers.pop_front_if(|pending| pending.since <= since).map(|pending| pending.answer)
    }

    /// The bills of requests that are asked again.
    pub(crate) fn bills(&self) -> impl Iterator<Item = &Bill> {
        self.asks.values().map(|ask| &ask.bill)
    }
}

//! Answers that wait for the store.
//!
//! A request for an immediate answer that no checkpoint covers is asked again after each
//! checkpoint. A start beyond the budgets of checkpoints is promised at once, so that the next
//! checkpoint has it. It is told once the store holds that checkpoint. A successor that restores an
//! earlier checkpoint does not have the start; its client was never told.

use super::Scheduler;
use super::permits::{Granted, Stage, State};
use crate::collections::Slot;
use crate::event::Ask;
use crate::fencing::GrantBudget;
use crate::ids::CheckpointNumber;
use crate::ledger::Offer;
use crate::policy::{Bill, Resource};
use crate::refusal::Refusal;
use hashbrown::HashMap;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;

/// How long an answer waits for a checkpoint, before the request is refused.
const PENDING_TIMEOUT: Span = Span::from_millis(500);

/// Answers that wait for the store, oldest first.
///
/// Invariant: every request in `asks` has an answer in `answers`. The answer to a cancelled request
/// stays there without its request.
#[derive(Clone, Debug)]
pub(crate) struct PendingAnswers<R> {
    answers: VecDeque<PendingAnswer<R>>,
    asks: HashMap<PermitId, Ask<R>>,
}

impl<R> PendingAnswers<R> {
    pub(crate) fn new() -> Self {
        PendingAnswers { answers: VecDeque::new(), asks: HashMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether a request with this id is asked again.
    pub(crate) fn has(&self, id: &PermitId) -> bool {
        self.asks.contains_key(id)
    }

    fn push_ask(&mut self, since: Time, ask: Ask<R>) {
        self.answers.push_back(PendingAnswer { since, answer: Answer::Again(ask.id.clone()) });
        self.asks.insert(ask.id.clone(), ask);
    }
}

/// An answer that waits, and since when.
#[derive(Clone, Debug)]
struct PendingAnswer<R> {
    since: Time,
    answer: Answer<R>,
}

#[derive(Clone, Debug)]
enum Answer<R> {
    /// To the request with this id, which is asked again.
    Again(PermitId),
    /// A promised start, which the store knows once it holds this checkpoint. The serial tells it
    /// from the start of a later permit with the same id.
    Start { to: R, id: PermitId, serial: u64, checkpoint: CheckpointNumber },
}

impl<R: Clone> Scheduler<R> {
    /// Keeps a request for an immediate answer until a checkpoint covers it, or until a change of
    /// limits has charged all waiting requests.
    pub(crate) fn answer_later(&mut self, now: Time, ask: Ask<R>, start: Time) {
        if let Some(budget) = &mut self.grant_budget {
            budget.note_shortage(&self.resource, &ask.bill, start.since(now));
        }
        self.pending_answers.push_ask(now, ask);
    }

    /// Answers a repeated request in place of the first one. An id that waits for another request's
    /// answer is refused.
    pub(crate) fn repeat_pending(&mut self, ask: Ask<R>) {
        let pending = self.pending_answers.asks.get_mut(&ask.id).expect("its answer waits");
        match pending.identity.may_be(ask.identity) {
            true => pending.to = ask.to,
            false => self.refuse(ask.to, Some(ask.id), Refusal::IdInUse),
        }
    }

    /// Cancels a request whose answer waits, and answers it too. Its id is remembered, so that a
    /// late duplicate is not charged.
    pub(crate) fn cancel_pending(&mut self, now: Time, id: &PermitId) -> Result<(), Refusal> {
        let Ask { to, id, asker, identity, bill, .. } =
            self.pending_answers.asks.remove(id).ok_or(Refusal::UnknownPermit)?;
        let slot = self.permits.insert(id.clone(), asker, identity, bill, State::Returned);
        self.permits.started(slot, now, false);
        self.counters.returned += 1;
        self.refuse(to, Some(id), Refusal::UnknownPermit);
        Ok(())
    }

    /// Promises a start beyond the budgets, and tells it once the store knows of it.
    pub(crate) fn promise(&mut self, now: Time, ask: Ask<R>, offer: Offer, latest: Time) {
        let to = ask.to.clone();
        let (slot, granted) = self.commit_new(now, ask, offer, latest, Stage::Promised);
        let permit = self.permits.get(slot);
        let budget = self.grant_budget.as_mut().expect("only a grant budget keeps answers back");
        budget.note_shortage(&self.resource, &permit.bill, offer.at.since(now));
        let answer = Answer::Start { to, id: permit.id.clone(), serial: granted.key.serial, checkpoint: budget.next() };
        self.pending_answers.answers.push_back(PendingAnswer { since: now, answer });
    }

    /// When the oldest pending answer becomes a refusal.
    pub(crate) fn next_pending_timeout(&self) -> Option<Time> {
        Some(self.pending_answers.answers.front()?.since + PENDING_TIMEOUT)
    }

    /// The store holds a checkpoint: answers that waited for it go out.
    pub(crate) fn checkpoint_stored(&mut self, now: Time, number: CheckpointNumber) {
        let Some(budget) = &mut self.grant_budget else { return };
        budget.confirm(number);
        self.since = self.since.min(now);
        self.time_out_pending(now);
        self.ask_pending(now);
        self.ledger.note_change();
    }

    /// Asks the requests again whose answers have waited, and tells starts that the store knows.
    pub(crate) fn ask_pending(&mut self, now: Time) {
        let stored = self.grant_budget.as_ref().and_then(GrantBudget::stored);
        for PendingAnswer { since, answer } in std::mem::take(&mut self.pending_answers.answers) {
            match answer {
                Answer::Again(id) => self.ask_again_since(now, since, &id),
                Answer::Start { to, id, serial, checkpoint } if stored >= Some(checkpoint) => {
                    self.tell_promised(now, to, id, serial);
                }
                start @ Answer::Start { .. } => {
                    self.pending_answers.answers.push_back(PendingAnswer { since, answer: start });
                }
            }
        }
    }

    fn ask_again_since(&mut self, now: Time, since: Time, id: &PermitId) {
        let Some(ask) = self.pending_answers.asks.remove(id) else { return };
        let before = self.pending_answers.len();
        self.ask(now, ask);
        // If the request waits for another checkpoint, its time goes on.
        self.pending_answers.answers.range_mut(before..).for_each(|pending| pending.since = since);
    }

    fn tell_promised(&mut self, now: Time, to: R, id: PermitId, serial: u64) {
        let Some((slot, granted)) = self.promised_start(&id, serial) else {
            return self.refuse(to, Some(id), Refusal::UnknownPermit);
        };
        let granted = Granted { stage: Stage::Told, ..granted };
        self.permits.get_mut(slot).state = State::Granted(granted);
        self.delivery.note_told(now, slot, serial);
        self.answer(now, slot, to, granted, Span::ZERO, false);
    }

    /// Refuses requests whose answers have waited for too long.
    pub(crate) fn time_out_pending(&mut self, now: Time) {
        self.give_up_pending(now, now - PENDING_TIMEOUT);
    }

    /// Refuses requests whose answers have waited since `since` or longer, and takes promised
    /// starts back.
    pub(crate) fn give_up_pending(&mut self, now: Time, since: Time) {
        while let Some(PendingAnswer { answer, .. }) =
            self.pending_answers.answers.pop_front_if(|pending| pending.since <= since)
        {
            match answer {
                Answer::Again(id) => {
                    if let Some(ask) = self.pending_answers.asks.remove(&id) {
                        self.refuse(ask.to, Some(id), Refusal::Unavailable);
                    }
                }
                Answer::Start { to, id, serial, .. } => {
                    if let Some((slot, granted)) = self.promised_start(&id, serial) {
                        self.give_back_untold(now, slot, granted);
                    }
                    self.refuse(to, Some(id), Refusal::Unavailable);
                }
            }
        }
    }

    /// The promised start with this id and serial, unless it was told or given back.
    fn promised_start(&self, id: &PermitId, serial: u64) -> Option<(Slot, Granted)> {
        let slot = self.permits.find(id)?;
        let granted = self.permits.get(slot).granted()?;
        (granted.stage == Stage::Promised && granted.key.serial == serial).then_some((slot, granted))
    }

    /// The bills of requests that are asked again after the next checkpoint.
    pub(crate) fn pending_bills(&self) -> impl Iterator<Item = &Bill> {
        self.pending_answers.asks.values().map(|ask| &ask.bill)
    }

    /// Charges requests whose answers wait by the present limits instead of `former` ones. If a
    /// request has no [`Call`](crate::policy::Call), it is refused, to be asked again at once.
    pub(crate) fn charge_pending(&mut self, former: &Resource) {
        let is_same = self.resource.shares_bills_with(former);
        for PendingAnswer { since, answer } in std::mem::take(&mut self.pending_answers.answers) {
            match answer {
                Answer::Again(id) => self.charge_ask(since, &id, is_same),
                start @ Answer::Start { .. } => {
                    self.pending_answers.answers.push_back(PendingAnswer { since, answer: start });
                }
            }
        }
    }

    fn charge_ask(&mut self, since: Time, id: &PermitId, is_same: bool) {
        let Some(ask) = self.pending_answers.asks.remove(id) else { return };
        let known = is_same || ask.call.is_some();
        let charged = || self.charge_by(&ask.bill, ask.call.as_deref());
        match if known { charged() } else { Err(Refusal::Unavailable) } {
            Ok(bill) => self.pending_answers.push_ask(since, Ask { bill, ..ask }),
            Err(refusal) => self.refuse(ask.to, Some(ask.id), refusal),
        }
    }
}

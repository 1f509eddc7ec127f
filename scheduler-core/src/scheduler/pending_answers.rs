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
use crate::ids::CheckpointNumber;
use crate::ledger::Offer;
use crate::policy::Bill;
use crate::refusal::Refusal;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};

/// How long an answer waits for a checkpoint, before the request is refused.
const PENDING_TIMEOUT: Span = Span::from_millis(500);

/// An answer that waits, and since when.
#[derive(Clone, Debug)]
pub(crate) struct PendingAnswer<R> {
    since: Time,
    answer: Answer<R>,
}

#[derive(Clone, Debug)]
enum Answer<R> {
    /// To a request that is asked again.
    Again(Ask<R>),
    /// A promised start, which the store knows once it holds this checkpoint. The serial tells it
    /// from the start of a later permit with the same id.
    Start { to: R, id: PermitId, serial: u64, checkpoint: CheckpointNumber },
}

impl<R: Clone> Scheduler<R> {
    /// Keeps a request for an immediate answer until a checkpoint covers it.
    pub(crate) fn wait_for_checkpoint(&mut self, now: Time, ask: Ask<R>, start: Time) {
        let budget = self.grant_budget.as_mut().expect("only a grant budget keeps answers back");
        budget.note_shortage(&self.resource, &ask.bill, start.since(now));
        self.pending_answers.push_back(PendingAnswer { since: now, answer: Answer::Again(ask) });
    }

    /// Promises a start beyond the budgets, and tells it once the store knows of it.
    pub(crate) fn promise(&mut self, now: Time, ask: Ask<R>, offer: Offer, latest: Time) {
        let to = ask.to.clone();
        let (slot, granted) = self.commit_new(now, ask, offer, latest, Stage::Promised);
        let permit = self.permits.get(slot);
        let budget = self.grant_budget.as_mut().expect("only a grant budget keeps answers back");
        budget.note_shortage(&self.resource, &permit.bill, offer.at.since(now));
        let answer = Answer::Start { to, id: permit.id.clone(), serial: granted.key.serial, checkpoint: budget.next() };
        self.pending_answers.push_back(PendingAnswer { since: now, answer });
    }

    /// When the oldest pending answer becomes a refusal.
    pub(crate) fn next_pending_timeout(&self) -> Option<Time> {
        Some(self.pending_answers.front()?.since + PENDING_TIMEOUT)
    }

    /// The store holds a checkpoint: answers that waited for it go out.
    pub(crate) fn checkpoint_stored(&mut self, now: Time, number: CheckpointNumber) {
        let Some(budget) = &mut self.grant_budget else { return };
        budget.confirm(number);
        let stored = budget.stored();
        self.time_out_pending(now);
        for PendingAnswer { since, answer } in std::mem::take(&mut self.pending_answers) {
            match answer {
                Answer::Again(ask) => {
                    let before = self.pending_answers.len();
                    self.ask(now, ask);
                    // If the request waits for another checkpoint, its time goes on.
                    self.pending_answers.range_mut(before..).for_each(|pending| pending.since = since);
                }
                Answer::Start { to, id, serial, checkpoint } if stored >= Some(checkpoint) => {
                    self.tell_promised(now, to, id, serial);
                }
                start @ Answer::Start { .. } => self.pending_answers.push_back(PendingAnswer { since, answer: start }),
            }
        }
        self.ledger.note_change();
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
            self.pending_answers.pop_front_if(|pending| pending.since <= since)
        {
            let (to, id) = match answer {
                Answer::Again(ask) => (ask.to, ask.id),
                Answer::Start { to, id, serial, .. } => {
                    if let Some((slot, granted)) = self.promised_start(&id, serial) {
                        self.give_back_untold(now, slot, granted);
                    }
                    (to, Some(id))
                }
            };
            self.refuse(to, id, Refusal::Unavailable);
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
        self.pending_answers.iter().filter_map(|pending| match &pending.answer {
            Answer::Again(ask) => Some(&ask.bill),
            Answer::Start { .. } => None,
        })
    }

    /// Takes out the requests that would be asked again after the next checkpoint.
    pub(crate) fn take_pending_asks(&mut self) -> Vec<Ask<R>> {
        let mut held = Vec::new();
        for PendingAnswer { since, answer } in std::mem::take(&mut self.pending_answers) {
            match answer {
                Answer::Again(ask) => held.push(ask),
                start @ Answer::Start { .. } => self.pending_answers.push_back(PendingAnswer { since, answer: start }),
            }
        }
        held
    }
}

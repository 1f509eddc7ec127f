//! Answers that wait for the store.
//!
//! A request for an immediate answer that no checkpoint covers is retried after each checkpoint. A
//! start beyond the budgets of checkpoints is promised at once, so that the next checkpoint has it,
//! and sent once the store holds that checkpoint. A successor that restores an earlier one does not
//! have the start, which was never sent.

use crate::checkpoint_number::CheckpointNumber;
use crate::collections::Slot;
use crate::event::Ask;
use crate::ledger::Offer;
use crate::permits::{Granted, Stage, State};
use crate::scheduler::Scheduler;
use crate::scheduler::pending_answers::{Answer, PendingAnswer, TIMEOUT};
use rampmeter_policy::Resource;
use rampmeter_policy::refusal::Refusal;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};

impl<R: Clone> Scheduler<R> {
    /// Redirects the answer to a repeated request. Another request under the same id is refused.
    pub(crate) fn repeat_pending(&mut self, ask: Ask<R>) {
        let pending = self.pending.asks.get_mut(&ask.id).expect("its answer waits");
        match pending.identity.may_be(ask.identity) {
            true => pending.to = ask.to,
            false => self.refuse(ask.to, ask.id, Refusal::IdInUse),
        }
    }

    /// Cancels a request whose answer waits, and answers it too. Its id is remembered, so that a
    /// late duplicate is not charged.
    pub(crate) fn cancel_pending(&mut self, now: Time, id: &PermitId) -> Result<(), Refusal> {
        let Ask { to, id, identity, bill, .. } = self.pending.asks.remove(id).ok_or(Refusal::UnknownPermit)?;
        let slot = self.permits.insert(id.clone(), identity, bill, State::Returned);
        self.permits.forget_after(slot, now);
        self.counters.returned += 1;
        self.refuse(to, id, Refusal::UnknownPermit);
        Ok(())
    }

    /// Promises a start beyond the budgets, and sends it once the store knows of it.
    pub(crate) fn promise(&mut self, now: Time, ask: Ask<R>, offer: Offer, latest: Time) {
        let to = ask.to.clone();
        let (slot, granted) = self.commit_new(now, ask, offer, latest, Stage::Promised);
        let permit = self.permits.get(slot);
        self.term.budget.note_shortage(&self.resource, &permit.bill, &permit.bill, offer.at.since(now));
        let (id, checkpoint) = (permit.id.clone(), self.term.budget.next());
        let answer = Answer::Start { to, id, serial: granted.start.serial, checkpoint };
        self.pending.answers.push_back(PendingAnswer { since: now, answer });
    }

    /// Notes that the store holds a checkpoint, and sends the answers that waited for it.
    pub(crate) fn checkpoint_stored(&mut self, now: Time, number: CheckpointNumber) {
        if self.term.confirm(now, number) {
            self.go_on_after_checkpoint(now);
        }
    }

    /// Notes that the standbys hold a checkpoint. Promises that need the store still wait.
    pub(crate) fn checkpoint_witnessed(&mut self, now: Time, number: CheckpointNumber) {
        if self.term.budget.witness(number) {
            self.go_on_after_checkpoint(now);
        }
    }

    fn go_on_after_checkpoint(&mut self, now: Time) {
        self.time_out_pending(now);
        self.ask_pending(now);
        self.queues.keys.take_budgeted().into_iter().for_each(|key| self.ledger.keys.note_change(key));
        self.ledger.note_change();
    }

    /// Retries each request whose answer waits, and sends starts that the store knows.
    pub(crate) fn ask_pending(&mut self, now: Time) {
        for PendingAnswer { since, answer } in std::mem::take(&mut self.pending.answers) {
            match answer {
                Answer::Retry(id) => self.retry(now, since, &id),
                Answer::Start { to, id, serial, checkpoint } if self.term.budget.is_stored(checkpoint) => {
                    self.send_promised(now, to, id, serial);
                }
                start @ Answer::Start { .. } => {
                    self.pending.answers.push_back(PendingAnswer { since, answer: start });
                }
            }
        }
    }

    fn retry(&mut self, now: Time, since: Time, id: &PermitId) {
        let Some(ask) = self.pending.asks.remove(id) else { return };
        let before = self.pending.answers.len();
        self.ask(now, ask);
        // If the request waits again, its timeout still counts from its first wait.
        self.pending.answers.range_mut(before..).for_each(|pending| pending.since = since);
    }

    fn send_promised(&mut self, now: Time, to: R, id: PermitId, serial: u64) {
        let Some((slot, granted)) = self.promised_start(&id, serial) else {
            return self.refuse(to, id, Refusal::UnknownPermit);
        };
        let granted = Granted { stage: Stage::Sent, ..granted };
        self.permits.get_mut(slot).state = State::Granted(granted);
        self.answer(now, slot, to, granted, Some(Span::ZERO));
    }

    pub(crate) fn time_out_pending(&mut self, now: Time) {
        while let Some(answer) = self.pending.pop_since(now - TIMEOUT) {
            self.give_up(now, answer, Refusal::StoreSilent);
        }
    }

    pub(crate) fn give_up_pending(&mut self, now: Time) {
        while let Some(answer) = self.pending.pop_since(now) {
            self.give_up(now, answer, Refusal::HandingOver);
        }
    }

    /// Refuses a request whose answer has waited, and takes a promised start back.
    fn give_up(&mut self, now: Time, answer: Answer<R>, refusal: Refusal) {
        match answer {
            Answer::Retry(id) => {
                if let Some(ask) = self.pending.asks.remove(&id) {
                    self.refuse(ask.to, id, refusal);
                }
            }
            Answer::Start { to, id, serial, .. } => {
                if let Some((slot, granted)) = self.promised_start(&id, serial) {
                    self.give_back_undelivered(now, slot, granted);
                }
                self.refuse(to, id, refusal);
            }
        }
    }

    /// Returns the promised start with this id and serial, unless it was sent or given back.
    fn promised_start(&self, id: &PermitId, serial: u64) -> Option<(Slot, Granted)> {
        let slot = self.permits.find(id)?;
        let granted = self.permits.get(slot).granted()?;
        (granted.stage == Stage::Promised && granted.start.serial == serial).then_some((slot, granted))
    }

    /// Charges requests whose answers wait by the present limits instead of `former` ones. If bills
    /// differ, a request without a [`Call`](rampmeter_policy::Call) is refused, to ask again.
    pub(crate) fn charge_pending(&mut self, former: &Resource) {
        let is_same = self.resource.shares_bills_with(former);
        for (id, ask) in std::mem::take(&mut self.pending.asks) {
            let known = is_same || ask.call.is_some();
            let charged = || self.charge_by(&ask.bill, ask.call.as_deref(), ask.class);
            let client = ask.bill.client;
            match if known { charged() } else { Err(Refusal::LimitsChanged) } {
                Ok(bill) => drop(self.pending.asks.insert(id, Ask { bill: bill.of_client(client), ..ask })),
                Err(refusal) => self.refuse(ask.to, id, refusal),
            }
        }
    }
}

//! Answers that wait for the store.
//!
//! A request that is to be answered at once, and that no checkpoint covers, is judged again with each. A start that lies beyond what checkpoints
//! have budgets for is promised at once, so that it is in the next checkpoint, and told once the store holds that checkpoint. A successor that goes
//! on from an earlier one gives the start to another; the asker never heard of it.

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

/// How long they wait for a checkpoint. Then it is for their senders to decide.
const PATIENCE: Span = Span::from_millis(500);

/// An answer that waits, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Pending<R> {
    since: Time,
    answer: Answer<R>,
}

#[derive(Clone, Debug)]
enum Answer<R> {
    /// To a request that is to be judged again.
    Anew(Ask<R>),
    /// That a start is promised, which the store knows once it holds this checkpoint. The id may be another permit's by then.
    Start { to: R, id: PermitId, serial: u64, mark: CheckpointNumber },
}

impl<R: Clone> Scheduler<R> {
    /// Keeps a request that is to be answered at once until the store holds a checkpoint that covers it.
    pub(crate) fn hold(&mut self, now: Time, ask: Ask<R>, start: Time) {
        if self.has_too_many_pending() {
            return self.refuse(ask.to, ask.id, Refusal::Unavailable);
        }
        self.grant_budget.as_mut().expect("only a grant_budget holds anybody").note_shortage(
            &self.resource,
            &ask.bill,
            start.since(now),
        );
        self.pending.push_back(Pending { since: now, answer: Answer::Anew(ask) });
    }

    /// Promises a start that is too far away for a budget, and tells of it once the store knows.
    pub(crate) fn promise(&mut self, now: Time, ask: Ask<R>, offer: Offer, latest: Time) {
        if self.has_too_many_pending() {
            return self.refuse(ask.to, ask.id, Refusal::Unavailable);
        }
        let to = ask.to.clone();
        let (slot, granted) = self.commit_new(now, ask, offer, latest, Stage::Promised);
        let permit = self.permits.get(slot);
        let grant_budget = self.grant_budget.as_mut().expect("only a grant_budget keeps answers back");
        grant_budget.note_shortage(&self.resource, &permit.bill, offer.at.since(now));
        let answer = Answer::Start { to, id: permit.id.clone(), serial: granted.key.serial, mark: grant_budget.next() };
        self.pending.push_back(Pending { since: now, answer });
    }

    fn has_too_many_pending(&self) -> bool {
        self.pending.len() >= self.resource.spec().bounds.max_waiting
    }

    /// When the first of them has been kept waiting for too long.
    pub(crate) fn next_release(&self) -> Option<Time> {
        Some(self.pending.front()?.since + PATIENCE)
    }

    /// The store holds a checkpoint: what waited for it goes on.
    pub(crate) fn checkpoint_stored(&mut self, now: Time, number: CheckpointNumber) {
        let Some(grant_budget) = &mut self.grant_budget else { return };
        grant_budget.confirm(number);
        let stored = grant_budget.stored();
        self.release_pending(now);
        for Pending { since, answer } in std::mem::take(&mut self.pending) {
            match answer {
                Answer::Anew(ask) => self.ask_held(now, since, ask),
                Answer::Start { to, id, serial, mark } if stored >= Some(mark) => {
                    self.tell_promised(now, to, id, serial);
                }
                start @ Answer::Start { .. } => self.pending.push_back(Pending { since, answer: start }),
            }
        }
        self.ledger.note_change();
    }

    /// Judges a request again. If it has to wait for another checkpoint, it has waited all the time.
    fn ask_held(&mut self, now: Time, since: Time, ask: Ask<R>) {
        let before = self.pending.len();
        self.ask(now, ask);
        self.pending.range_mut(before..).for_each(|pending| pending.since = since);
    }

    fn tell_promised(&mut self, now: Time, to: R, id: PermitId, serial: u64) {
        let Some((slot, granted)) = self.untold(&id, serial) else {
            return self.refuse(to, Some(id), Refusal::UnknownPermit);
        };
        let granted = Granted { stage: Stage::Told, ..granted };
        self.permits.get_mut(slot).state = State::Granted(granted);
        self.delivery.tell(now, slot, serial);
        self.answer(now, slot, to, granted, Span::ZERO, false);
    }

    /// Sends those elsewhere whom the store has kept waiting for too long.
    pub(crate) fn release_pending(&mut self, now: Time) {
        self.give_up_pending(now, now - PATIENCE);
    }

    /// Sends those elsewhere who have waited since `since` or longer. What was promised to them is taken back.
    pub(crate) fn give_up_pending(&mut self, now: Time, since: Time) {
        while let Some(Pending { answer, .. }) = self.pending.pop_front_if(|pending| pending.since <= since) {
            let (to, id) = match answer {
                Answer::Anew(ask) => (ask.to, ask.id),
                Answer::Start { to, id, serial, .. } => {
                    if let Some((slot, granted)) = self.untold(&id, serial) {
                        self.give_back_unheard(now, slot, granted);
                    }
                    (to, Some(id))
                }
            };
            self.refuse(to, id, Refusal::Unavailable);
        }
    }

    /// The permit called `id` whose start has this number, if its asker was not told of that and it was not given back.
    fn untold(&self, id: &PermitId, serial: u64) -> Option<(Slot, Granted)> {
        let slot = self.permits.find(id)?;
        let granted = self.permits.get(slot).granted()?;
        (granted.stage == Stage::Promised && granted.key.serial == serial).then_some((slot, granted))
    }

    /// What those want who are to be judged again.
    pub(crate) fn bills_held(&self) -> impl Iterator<Item = &Bill> {
        self.pending.iter().filter_map(|pending| match &pending.answer {
            Answer::Anew(ask) => Some(&ask.bill),
            Answer::Start { .. } => None,
        })
    }

    /// Takes out the requests that are to be judged again.
    pub(crate) fn take_held(&mut self) -> Vec<Ask<R>> {
        let mut held = Vec::new();
        for Pending { since, answer } in std::mem::take(&mut self.pending) {
            match answer {
                Answer::Anew(ask) => held.push(ask),
                start @ Answer::Start { .. } => self.pending.push_back(Pending { since, answer: start }),
            }
        }
        held
    }
}

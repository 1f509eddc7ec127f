//! Learning how calls went.

use crate::bill::Bill;
use crate::command::Command;
use crate::event::{Outcome, Settle};
use crate::permits::{Granted, State};
use crate::refusal::Refusal;
use crate::scheduler::Scheduler;
use crate::slab::Slot;
use crate::timeline::Key;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::Time;

impl<R: Clone> Scheduler<R> {
    pub(crate) fn settle(&mut self, now: Time, settle: Settle<R>) {
        let Settle { to, id, outcome } = settle;
        let done = match self.permits.find(&id) {
            Some(slot) => self.settle_known(now, slot, outcome),
            None => Err(Refusal::UnknownPermit),
        };
        match (to, done) {
            (Some(to), Ok(())) => self.push(Command::Settled { to, id }),
            (Some(to), Err(refusal)) => self.refuse(to, Some(id), refusal),
            (None, Ok(()) | Err(_)) => {}
        }
    }

    fn settle_known(&mut self, now: Time, slot: Slot, outcome: Outcome) -> Result<(), Refusal> {
        match (&self.permits.get(slot).state, outcome) {
            (State::Waiting(_), Outcome::Unused) => self.cancel(now, slot),
            (State::Waiting(_), Outcome::Used(_) | Outcome::Extend) => return Err(Refusal::StillWaiting),
            (State::Granted(granted), Outcome::Unused) if !granted.settled => self.give_back(now, slot, *granted),
            (State::Granted(granted), Outcome::Used(cost)) if !granted.settled => {
                self.use_up(now, slot, *granted, &cost)?;
            }
            (State::Granted(_), Outcome::Unused | Outcome::Used(_) | Outcome::Extend)
            | (State::Returned, Outcome::Unused | Outcome::Used(_)) => {}
            (State::Returned, Outcome::Extend) => return Err(Refusal::UnknownPermit),
        }
        Ok(())
    }

    /// Who asked is still answered: whoever cancels need not be who waits.
    fn cancel(&mut self, now: Time, slot: Slot) {
        self.yield_turn(slot);
        let permit = self.permits.get_mut(slot);
        let State::Waiting(waiting) = std::mem::replace(&mut permit.state, State::Returned) else {
            unreachable!("only who waits is cancelled")
        };
        let id = permit.id.clone();
        self.lines[waiting.class.index()].leave(&self.resource, slot, &waiting);
        self.forget_deadline(slot, &waiting);
        self.permits.started(slot, now);
        self.counters.returned += 1;
        self.change_plan();
        self.push(Command::Refuse { to: waiting.to, id: Some(id), refusal: Refusal::UnknownPermit });
    }

    fn give_back(&mut self, now: Time, slot: Slot, granted: Granted) {
        let permit = self.permits.get_mut(slot);
        permit.state = State::Returned;
        if granted.key.at > now {
            self.ledger.withdraw(&self.resource, granted.key, &permit.bill);
        } else {
            self.ledger.correct(&self.resource, now, granted.key.at, &permit.bill, &Bill::new());
        }
        self.counters.returned += 1;
        self.change_plan();
    }

    /// A call that was made before its start is spent now.
    fn use_up(&mut self, now: Time, slot: Slot, granted: Granted, cost: &[(String, Amount)]) -> Result<(), Refusal> {
        let tier = self.tier(granted.class);
        let permit = self.permits.get_mut(slot);
        let by_unit = cost.iter().map(|(unit, amount)| (unit.as_str(), *amount));
        let actual = self.resource.corrected(&permit.bill, by_unit)?;
        permit.state = State::Granted(Granted { settled: true, ..granted });
        if granted.key.at > now {
            self.ledger.withdraw(&self.resource, granted.key, &permit.bill);
            let early = Key { at: now, ..granted.key };
            self.ledger.commit(&self.resource, now, early, &actual, tier);
        } else {
            self.ledger.correct(&self.resource, now, granted.key.at, &permit.bill, &actual);
        }
        let corrected = actual != *permit.bill;
        self.counters.settled += 1;
        if corrected {
            self.change_plan();
        }
        Ok(())
    }

    /// Whether `id` is known and not given back.
    #[must_use]
    pub fn knows(&self, id: &PermitId) -> bool {
        let slot = self.permits.find(id);
        slot.is_some_and(|slot| !matches!(self.permits.get(slot).state, State::Returned))
    }
}

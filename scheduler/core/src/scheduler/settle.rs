//! Settling permits: unused, used at a cost, or extended while the call is in flight.

use super::Scheduler;
use super::feedback::blamed;
use crate::adaptation::{Limits, ObservedCall};
use crate::collections::Slot;
use crate::command::{Command, Note};
use crate::event::{Outcome, Settle};
use crate::identity::Identity;
use crate::limits::{CallMade, StartKey};
use crate::permits::{Granted, Stage, State};
use rampmeter_policy::ids::{ClassId, ClientNumber};
use rampmeter_policy::observation::{Observation, Verdict};
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::spec::Follow;
use rampmeter_policy::{Bill, by_unit};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::status::RejectionCause;
use rampmeter_protocol::time::Time;
use std::sync::Arc;

/// A call that the upstream has answered.
#[derive(Clone, Copy, Debug)]
pub struct EndedCall<'a> {
    /// When the call was made.
    pub at: Time,
    /// The bill that it was charged.
    pub bill: &'a Bill,
    /// The number of other calls in flight.
    pub beside: u64,
}

impl<R: Clone> Scheduler<R> {
    pub(crate) fn settle(&mut self, now: Time, settle: Settle<R>) {
        let Settle { to, id, outcome, observation, is_throttled, call } = settle;
        if is_throttled {
            self.count_rejection(now, &id, observation.as_ref());
        }
        let extended = outcome == Outcome::Extend && !self.is_over(&id);
        let done = match (self.permits.find(&id), outcome) {
            (Some(slot), outcome) => self.settle_known(now, slot, outcome, observation.as_ref()),
            (None, Outcome::Unused) if self.pending.asks.contains_key(&id) => self.cancel_pending(now, &id),
            (None, Outcome::Used(_)) if self.pending.asks.contains_key(&id) => Err(Refusal::StillWaiting),
            (None, Outcome::Extend) => {
                call.map_or(Err(Refusal::UnknownPermit), |call| self.count_anew(now, &id, &call))
            }
            (None, outcome) => self.end_unknown(now, &id, &outcome, call.as_deref()),
        };
        match (to, done) {
            (Some(to), Ok(())) => self.outbox.push_back(Command::Settled { to, id, extended }),
            (None, Ok(())) => {}
            (to, Err(refusal)) => self.outbox.push_back(Command::RefuseSettle { to, id, refusal }),
        }
    }

    /// Counts a call answered with 429. Must be called before the buckets learn from the response.
    fn count_rejection(&mut self, now: Time, id: &PermitId, observation: Option<&Observation>) {
        self.counters.upstream_429 += 1;
        let counted = &mut self.counters.rejections;
        let permit = self.permits.find(id).map(|slot| self.permits.get(slot));
        let call = permit.zip(observation).and_then(|(permit, observation)| permit.answered(now, observation));
        let Some(call) = call else { return counted.count(RejectionCause::Unknown) };
        let blamed: Limits = match &call.observation.verdict {
            Verdict::Passed => return counted.count(RejectionCause::Unknown),
            Verdict::Busy | Verdict::Limited { by_other_accounts: true, .. } => {
                return counted.count(RejectionCause::Upstream);
            }
            Verdict::Exhausted { .. } => return counted.count(RejectionCause::Quota),
            Verdict::Crowded => call.bill.charged().collect(),
            Verdict::Limited { scope, retry_after, by_other_accounts: false } => {
                blamed(&self.resource, &self.ledger, call, scope, *retry_after)
            }
        };
        let lacks = blamed.iter().any(|limit| self.ledger.lacks_after(call, *limit, Amount::ZERO));
        let too_high = self.rejections.count(now, &self.resource, call.bill, &blamed, lacks, counted);
        if let Some((bucket, allowed)) = too_high.filter(|_| self.resource.spec().follow == Follow::Headers) {
            self.ledger.learn_of(now, &bucket, |learned| learned.hold(now, allowed));
        }
    }

    /// Returns the call that a settle reports as made; `None` if the settle ends no open call.
    #[must_use]
    pub fn call_ended_by(&self, now: Time, settle: &Settle<R>) -> Option<EndedCall<'_>> {
        let permit = self.permits.get(self.permits.find(&settle.id)?);
        let Granted { start, .. } = permit.granted().filter(Granted::is_open)?;
        let beside = self.calls.count_young_beside(now, start);
        let call = EndedCall { at: start.at.min(now), bill: &permit.bill, beside };
        matches!(settle.outcome, Outcome::Used(_)).then_some(call)
    }

    /// Returns the class of a granted permit, and its client if it is known.
    #[must_use]
    pub fn caller_of(&self, id: &PermitId) -> Option<(ClassId, Option<&str>)> {
        let permit = self.permits.get(self.permits.find(id)?);
        let is_known = permit.bill.client != ClientNumber::default();
        let client = is_known.then(|| &**self.meter.names.name(permit.bill.client)).filter(|name| !name.is_empty());
        Some((permit.granted()?.class, client))
    }

    fn is_over(&self, id: &PermitId) -> bool {
        let state = self.permits.find(id).map(|slot| &self.permits.get(slot).state);
        matches!(state, Some(State::Granted(granted)) if !granted.is_open())
    }

    fn settle_known(
        &mut self,
        now: Time,
        slot: Slot,
        outcome: Outcome,
        observation: Option<&Observation>,
    ) -> Result<(), Refusal> {
        match (&self.permits.get(slot).state, outcome) {
            (State::Granted(granted), Outcome::Unused) if granted.is_open() => self.give_back(now, slot, *granted),
            (State::Granted(granted), Outcome::Used(cost)) if granted.is_open() => {
                let granted = *granted;
                return self.settle_used(now, slot, granted, cost, observation);
            }
            (State::Granted(granted), Outcome::Extend) if granted.is_open() => {
                return self.renew(now, slot, *granted);
            }
            (State::Waiting(_), Outcome::Unused) => self.cancel(now, slot),
            (State::Waiting(_), Outcome::Used(_) | Outcome::Extend) => return Err(Refusal::StillWaiting),
            (State::Returned, Outcome::Extend) => return Err(Refusal::UnknownPermit),
            (State::Granted(_), Outcome::Unused | Outcome::Used(_) | Outcome::Extend)
            | (State::Returned, Outcome::Unused | Outcome::Used(_)) => {}
        }
        Ok(())
    }

    fn settle_used(
        &mut self,
        now: Time,
        slot: Slot,
        granted: Granted,
        mut cost: Vec<(String, Amount)>,
        observation: Option<&Observation>,
    ) -> Result<(), Refusal> {
        let permit = self.permits.get(slot);
        let (user, bill) = (permit.identity.user(), Arc::clone(&permit.bill));
        // The call was made and answered, even if its stated cost is not valid.
        let checked = self.resource.check_units(by_unit(&cost));
        cost.retain(|(unit, _)| self.resource.counts(unit));
        let actual = self.resource.corrected(&bill, by_unit(&cost));
        let made = if observation.is_some() { CallMade::Answered } else { CallMade::Yes };
        self.shadow_limits.correct(now, granted.start, &bill, Some(&cost), made);
        // The cost of a rejected call teaches nothing.
        let served = observation.is_none_or(|observation| observation.verdict == Verdict::Passed);
        for (unit, amount) in cost.iter().filter(|_| served) {
            self.cost_estimates.learn(&self.resource, &bill, unit, *amount);
        }
        self.calls.end(now, granted.start, served.then_some(&actual));
        if served {
            self.rejections.note_served(now, &bill, &actual);
        }
        self.outbox.push_back(Command::Note(Note::CallEnded(now.since(granted.start.at))));
        let answer = |observation| ObservedCall { now, start: granted.start, user, bill: &bill, observation };
        let settled = observation.and_then(|observation| self.observe(answer(observation)));
        self.use_up(now, slot, granted, &settled.unwrap_or(actual), made);
        checked
    }

    /// Cancels a waiting request, and answers it too: the settle may come from another client.
    fn cancel(&mut self, now: Time, slot: Slot) {
        let waiting = self.take_out(slot);
        let id = self.permits.get(slot).id.clone();
        self.permits.forget_after(slot, now);
        self.counters.returned += 1;
        self.refuse(waiting.to, id, Refusal::UnknownPermit);
    }

    pub(crate) fn give_back(&mut self, now: Time, slot: Slot, granted: Granted) {
        self.uncharge(now, slot, granted);
        self.permits.give_back(now, slot);
    }

    /// Gives back a start that reached no client, and forgets its id for another try.
    pub(crate) fn give_back_undelivered(&mut self, now: Time, slot: Slot, granted: Granted) {
        self.uncharge(now, slot, granted);
        self.permits.forget_now(slot);
    }

    /// Renews the leases of a call in flight, if every checkpoint that may be stored covers it.
    fn renew(&mut self, now: Time, slot: Slot, granted: Granted) -> Result<(), Refusal> {
        let bill = Arc::clone(&self.permits.get(slot).bill);
        if self.resource.in_flight_part(&bill).is_empty() {
            return Ok(());
        }
        self.check_renewals(now)?;
        let fits = self.renew_leases(now, granted.start, &bill);
        self.permits.move_end(slot, self.ledger.lease_end(now, granted.start, &bill));
        if fits { Ok(()) } else { Err(Refusal::RenewedTooLate) }
    }

    fn check_renewals(&self, now: Time) -> Result<(), Refusal> {
        if self.term.budget.covers_renewals(now) { Ok(()) } else { Err(Refusal::StoreSilent) }
    }

    /// Counts a call in flight whose permit is unknown, because a predecessor died before the store
    /// knew the id. The predecessor's checkpoint keeps places for such calls until their leases
    /// end. Until then the call may count twice, but never less than once.
    fn count_anew(&mut self, now: Time, id: &PermitId, call: &Bill) -> Result<(), Refusal> {
        let bill = self.resource.in_flight_part(call);
        if !self.may_be_of_predecessor(now, &bill) {
            return Err(Refusal::UnknownPermit);
        }
        if self.term.is_ending {
            return Err(Refusal::HandingOver);
        }
        self.check_renewals(now)?;
        self.check_room(now, &bill)?;
        let (at, quotas) = self.unsettled.remove(id).map_or((now, Bill::default()), |(start, bill)| (start.at, bill));
        let key = StartKey { at: at.min(now), serial: self.permits.next_serial() };
        let granted = Granted::new(key, None, self.resource.default_class(), Stage::Inherited);
        self.ledger.renew(now, key, &bill);
        self.term.budget.charge(&self.resource, &bill, now);
        self.calls.begin(now, key);
        let end = self.ledger.lease_end(now, key, &bill);
        let slot = self.permits.insert(id.clone(), Identity::default(), bill.and(&quotas), State::Granted(granted));
        self.permits.forget_after(slot, end);
        Ok(())
    }

    /// Ends a call whose permit is unknown: gives back what the record says that a quota was charged,
    /// and frees one of the places that the predecessor's checkpoint keeps. Its id is remembered, so
    /// that it does so once.
    fn end_unknown(&mut self, now: Time, id: &PermitId, outcome: &Outcome, call: Option<&Bill>) -> Result<(), Refusal> {
        let settled = self.end_recorded(now, id, outcome);
        let bill = call.map(|call| self.resource.in_flight_part(call)).filter(|_| self.term.frees_inherited(now));
        let freed = bill.is_some_and(|bill| self.ledger.end_inherited(now, &bill));
        if settled.is_none() && !freed {
            return Err(Refusal::UnknownPermit);
        }
        let slot = self.permits.insert(id.clone(), Identity::default(), Bill::default(), State::Returned);
        self.permits.forget_after(slot, now);
        self.counters.settled += 1;
        settled.unwrap_or(Ok(()))
    }

    /// Whether a predecessor may have granted a call in flight with this bill: its renewal comes
    /// within one lease of the take-over. A later one is refused: its call may never have had a
    /// permit.
    fn may_be_of_predecessor(&self, now: Time, bill: &Bill) -> bool {
        let longest = self.resource.leases(bill).map(|(_, lease)| lease).max();
        longest.is_some_and(|lease| self.term.began_within(now, lease))
    }

    /// Returns whether `id` is known and not given back.
    #[must_use]
    pub fn knows(&self, id: &PermitId) -> bool {
        let slot = self.permits.find(id);
        slot.is_some_and(|slot| !matches!(self.permits.get(slot).state, State::Returned))
    }
}

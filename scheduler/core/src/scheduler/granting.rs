//! Granted starts: promises and sends them, takes back those that reach no client, and counts them.
//!
//! A client begins its call the stated delay after the answer arrives. If answers come late, buckets
//! refill meanwhile, and the calls would come on top of the refill. Clients notice that an answer
//! came late, and return its permit. Until answers arrive in time again, waiting requests are
//! granted nothing.
//!
//! A start that was committed and not withdrawn counts in the limits, in the grant budget and in
//! the use by clients, at the bill of its permit. From its settle on, it counts at its actual cost.

use crate::collections::Slot;
use crate::command::{Command, Grant};
use crate::event::Ask;
use crate::ledger::Offer;
use crate::limits::{CallMade, StartKey};
use crate::permits::{Granted, Stage, State};
use crate::queue::ServiceCount;
use crate::scheduler::Scheduler;
use rampmeter_policy::ids::{ClassId, Tier};
use rampmeter_policy::{Bill, LimitSet};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

impl<R: Clone> Scheduler<R> {
    /// Creates the start of `offer`, behind all promised starts of the same time.
    pub(crate) fn next_start(&mut self, offer: Offer, class: ClassId, stage: Stage) -> Granted {
        let key = StartKey { at: offer.at, serial: self.permits.next_serial() };
        Granted::new(key, offer.limited_by, class, stage)
    }

    pub(crate) fn grant(&mut self, now: Time, ask: Ask<R>, offer: Offer, latest: Time) {
        let to = ask.to.clone();
        let (slot, granted) = self.commit_new(now, ask, offer, latest, Stage::Sent);
        self.answer(now, slot, to, granted, Some(Span::ZERO));
    }

    /// Commits a new permit to a start. Its request allows no start after `latest`.
    pub(crate) fn commit_new(
        &mut self,
        now: Time,
        ask: Ask<R>,
        offer: Offer,
        latest: Time,
        stage: Stage,
    ) -> (Slot, Granted) {
        let granted = self.next_start(offer, ask.class, stage);
        let service = ServiceCount::of_grant(self.resource.dominant_share(&ask.bill), offer.at.since(now), false);
        self.recent.note(now, ask.class, ask.bill.client, &service);
        let slot = self.permits.insert(ask.id, ask.identity, ask.bill, State::Granted(granted));
        self.commit(now, slot, granted, self.resource.tier(ask.class), latest);
        (slot, granted)
    }

    /// Sends `to` the start of the permit in `slot`, and how long its request waited in the queue;
    /// `None` if the request got this start before.
    pub(crate) fn answer(&mut self, now: Time, slot: Slot, to: R, granted: Granted, waited: Option<Span>) {
        let permit = self.permits.get(slot);
        let (id, lease) = (permit.id.clone(), self.resource.leases(&permit.bill).map(|(_, lease)| lease).min());
        let Granted { start, limited_by, class, .. } = granted;
        let delay = start.at.since(now);
        // A repeated answer does not prolong the permit.
        let validity = (start.at + self.resource.spec().validity).since(now + delay);
        let (repeated, waited) = (waited.is_none(), waited.unwrap_or_default());
        let charged = if delay > self.resource.spec().horizon {
            permit.bill.charged().map(|limit| permit.bill.bucket(limit)).collect()
        } else {
            Vec::new()
        };
        let (account, way) = (permit.bill.account, permit.bill.way);
        let grant =
            Grant { to, id, delay, validity, lease, limited_by, charged, class, waited, repeated, account, way };
        self.outbox.push_back(Command::Grant(grant));
    }

    pub(crate) fn delivered(&mut self) {
        if std::mem::take(&mut self.answers_are_late) {
            self.ledger.note_change();
        }
    }

    /// Handles an answer about `id` that has reached no client. A waiting request is dropped, and
    /// an open permit whose grant is lost is given back unused. After a lost update, the grant may
    /// have arrived. A client that was only cut off may ask again under the same id.
    pub(crate) fn undelivered(&mut self, now: Time, id: &PermitId, is_grant: bool) {
        let Some(slot) = self.permits.find(id) else { return };
        match self.permits.get(slot).state {
            State::Waiting(_) => {
                self.drop_waiting(slot);
                self.counters.returned += 1;
            }
            State::Granted(granted) if is_grant && granted.is_open() => self.give_back_undelivered(now, slot, granted),
            State::Granted(_) | State::Returned => {}
        }
    }

    pub(crate) fn commit(&mut self, now: Time, slot: Slot, granted: Granted, tier: Tier, latest: Time) {
        let start = granted.start;
        assert!(start.at >= now, "a start is granted before it begins");
        let permit = self.permits.get_mut(slot);
        permit.state = State::Granted(granted);
        let bill = Arc::clone(&permit.bill);
        // There may be two calls of one id now, of which one settle tells.
        self.unsettled.remove(&permit.id);
        self.ledger.commit(now, start, &bill, tier);
        self.ledger.note_start(start.at, &bill);
        self.term.budget.charge(&self.resource, &bill, start.at);
        self.meter.count(granted.class, &bill);
        self.calls.begin(now, start);
        bill.account.into_iter().for_each(|account| self.chosen[account.index()] = start.serial);
        if let Some(shadow) = &bill.shadow {
            for limit in shadow.limits() {
                self.shadow_limits.note_granted(now, start, limit, &shadow.only(limit), latest);
            }
        }
        let end = self.ledger.lease_end(now, start, &bill);
        self.permits.forget_after(slot, end);
        self.counters.granted += 1;
    }

    /// Removes a start from all counts, because its call was not made.
    pub(super) fn uncharge(&mut self, now: Time, slot: Slot, granted: Granted) {
        assert!(granted.is_open(), "a call that is over gives nothing back");
        let bill = Arc::clone(&self.permits.get(slot).bill);
        self.calls.withdraw(granted.start);
        let occupied = self.occupied(now, granted.start, &bill);
        self.term.budget.release(&self.resource, granted.start, &bill, occupied, CallMade::No);
        self.meter.take_out(granted.class, &bill);
        if granted.starts_later(now) {
            self.ledger.withdraw(now, granted.start, &bill);
        } else {
            self.ledger.correct(now, granted.start, &bill, &Bill::default(), CallMade::No);
        }
        self.shadow_limits.correct(now, granted.start, &bill, None, CallMade::No);
        self.end_twice_counted(now, granted, &bill);
        self.counters.returned += 1;
    }

    /// Corrects all counts to the actual cost. A call made before its start counts from now.
    pub(super) fn use_up(&mut self, now: Time, slot: Slot, granted: Granted, actual: &Bill, made: CallMade) {
        let permit = self.permits.get_mut(slot);
        let early = StartKey { at: granted.start.at.min(now), ..granted.start };
        permit.state = State::Granted(Granted { start: early, stage: Stage::Settled, ..granted });
        let bill = Arc::clone(&permit.bill);
        let occupied = self.occupied(now, granted.start, &bill);
        if granted.starts_later(now) {
            self.ledger.withdraw(now, granted.start, &bill);
            self.ledger.commit(now, early, actual, self.resource.tier(granted.class));
            self.ledger.correct(now, early, actual, actual, made);
        } else {
            self.ledger.correct(now, granted.start, &bill, actual, made);
        }
        self.meter.correct(granted.class, &bill, actual);
        self.term.budget.charge(&self.resource, &actual.excess_over(&bill), now);
        self.term.budget.release(&self.resource, granted.start, &bill, occupied, made);
        self.end_twice_counted(now, granted, &bill);
        self.counters.settled += 1;
    }

    /// Frees the place that the predecessor's checkpoint keeps for a call that was counted anew.
    fn end_twice_counted(&mut self, now: Time, granted: Granted, bill: &Bill) {
        if granted.stage == Stage::Inherited && self.term.frees_inherited(now) {
            self.ledger.end_inherited(now, bill);
        }
    }

    /// Renews the leases of a call, and retakes expired places. Returns whether there was room.
    pub(super) fn renew_leases(&mut self, now: Time, key: StartKey, bill: &Bill) -> bool {
        let mut expired = self.resource.in_flight_part(bill);
        self.ledger.leases(now, key, bill).for_each(|(limit, _)| expired.set(limit, Amount::ZERO));
        self.term.budget.charge(&self.resource, &expired, now);
        self.ledger.renew(now, key, bill)
    }

    fn occupied(&self, now: Time, key: StartKey, bill: &Bill) -> LimitSet {
        if key.at > now {
            return LimitSet::NONE;
        }
        self.ledger.leases(now, key, bill).map(|(limit, _)| limit).fold(LimitSet::NONE, LimitSet::with)
    }
}

//! Counts starts in the limits, in the grant budget and in the use by clients.
//!
//! A start that was committed and not withdrawn counts in each of these parts, at the bill of its
//! permit. From its settle on, the start counts at its actual cost.

use super::Scheduler;
use crate::collections::Slot;
use crate::ids::Tier;
use crate::limits::{CallMade, StartKey};
use crate::permits::{Granted, Stage, State};
use crate::policy::{Bill, LimitSet, Resource, Succession};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;
use std::sync::Arc;

impl<R: Clone> Scheduler<R> {
    /// Commits the permit in `slot` to a start. Its request allows no start after `latest`.
    pub(crate) fn commit(&mut self, now: Time, slot: Slot, granted: Granted, tier: Tier, latest: Time) {
        let start = granted.start;
        assert!(start.at >= now, "a start is granted before it begins");
        let permit = self.permits.get_mut(slot);
        permit.state = State::Granted(granted);
        let bill = Arc::clone(&permit.bill);
        self.ledger.commit(now, start, &bill, tier);
        self.ledger.note_start(start.at, &bill);
        self.term.budget_mut().charge(&self.resource, &bill, start.at);
        self.meter.count(granted.class, &bill);
        self.calls.begin(now, start);
        if let Some(shadow) = &bill.shadow {
            for limit in shadow.applicable().limits() {
                self.shadow_limits.note_granted(now, start, limit, &shadow.only(limit), latest);
            }
        }
        let end = self.ledger.lease_end(now, start, &bill);
        self.permits.forget_after(slot, end);
        self.counters.granted += 1;
    }

    /// Takes a start out of all counts, because its call was not made.
    pub(super) fn uncharge(&mut self, now: Time, slot: Slot, granted: Granted) {
        assert!(granted.is_open(), "a call that is over gives nothing back");
        let bill = Arc::clone(&self.permits.get(slot).bill);
        self.calls.withdraw(granted.start);
        let occupied = self.occupied(now, granted.start, &bill);
        self.term.budget_mut().release(&self.resource, granted.start, &bill, occupied, CallMade::No);
        self.meter.take_out(granted.class, &bill);
        if granted.is_promised(now) {
            self.ledger.withdraw(now, granted.start, &bill);
        } else {
            self.ledger.correct(now, granted.start, &bill, &Bill::new(), CallMade::No);
        }
        self.shadow_limits.correct(now, granted.start, &bill, None);
        self.end_twice_counted(now, granted, &bill);
        self.counters.returned += 1;
    }

    /// Corrects all counts to the actual cost. A call that was made before its start counts from
    /// now.
    pub(super) fn use_up(&mut self, now: Time, slot: Slot, granted: Granted, actual: &Bill) {
        let permit = self.permits.get_mut(slot);
        let early = StartKey { at: granted.start.at.min(now), ..granted.start };
        permit.state = State::Granted(granted.moved_to(early).in_stage(Stage::Settled));
        let bill = Arc::clone(&permit.bill);
        let occupied = self.occupied(now, granted.start, &bill);
        if granted.is_promised(now) {
            self.ledger.withdraw(now, granted.start, &bill);
            self.ledger.commit(now, early, actual, self.resource.tier(granted.class));
            self.ledger.correct(now, early, actual, actual, CallMade::Yes);
        } else {
            self.ledger.correct(now, granted.start, &bill, actual, CallMade::Yes);
        }
        self.meter.correct(granted.class, &bill, actual);
        self.term.budget_mut().charge(&self.resource, &actual.excess_over(&bill), now);
        self.term.budget_mut().release(&self.resource, granted.start, &bill, occupied, CallMade::Yes);
        self.end_twice_counted(now, granted, &bill);
        self.counters.settled += 1;
    }

    /// Frees the place that the predecessor's checkpoint keeps for a call which was counted anew.
    fn end_twice_counted(&mut self, now: Time, granted: Granted, bill: &Bill) {
        if granted.stage == Stage::Inherited && self.term.frees_inherited(now) {
            self.ledger.end_inherited(now, bill);
        }
    }

    /// Renews the leases of a call in flight. The call takes expired places again. Returns whether
    /// there was room for it.
    pub(super) fn renew_leases(&mut self, now: Time, key: StartKey, bill: &Bill) -> bool {
        let mut expired = self.resource.in_flight_part(bill);
        self.ledger.leases(now, key, bill).for_each(|(limit, _)| expired.set(limit, Amount::ZERO));
        self.term.budget_mut().charge(&self.resource, &expired, now);
        self.ledger.renew(now, key, bill)
    }

    /// The limits in which the call of `key` still holds its place.
    fn occupied(&self, now: Time, key: StartKey, bill: &Bill) -> LimitSet {
        if key.at > now {
            return LimitSet::NONE;
        }
        self.ledger.leases(now, key, bill).map(|(limit, _)| limit).fold(LimitSet::NONE, LimitSet::with)
    }

    /// Counts under other limits from now on.
    pub(super) fn change_counted(&mut self, now: Time, resource: &Resource, succession: &Succession) {
        self.ledger.change(now, resource, succession);
        self.shadow_limits.change(now, resource);
        self.term.change_limits(resource);
        self.calls.change_limits();
        self.meter.change_limits(resource);
    }
}

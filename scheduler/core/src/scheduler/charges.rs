//! Counts starts in the limits, in the grant budget and in the use by clients.

use crate::adaptation::RecentCalls;
use crate::fencing::Term;
use crate::ids::Tier;
use crate::ledger::{Ledger, ShadowLimits, UsageMeter};
use crate::limits::{CallMade, StartKey};
use crate::permits::Granted;
use crate::policy::{Bill, LimitSet, Resource, Succession};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;

/// The parts that count starts.
///
/// Invariant: a start that was committed and not withdrawn counts in each of these parts, at the
/// bill of its permit. From its settle on, the start counts at its actual cost.
#[derive(Debug)]
pub(crate) struct Charges<'a> {
    /// The time of the event.
    pub(super) now: Time,
    pub(super) resource: &'a Resource,
    pub(super) ledger: &'a mut Ledger,
    pub(super) shadow_limits: &'a mut ShadowLimits,
    pub(super) term: &'a mut Term,
    pub(super) calls: &'a mut RecentCalls,
    pub(super) meter: &'a mut UsageMeter,
}

impl Charges<'_> {
    /// Charges a start. Its request allows no start after `latest`.
    pub(crate) fn commit(&mut self, granted: Granted, bill: &Bill, tier: Tier, latest: Time) {
        let start = granted.start;
        assert!(start.at >= self.now, "a start is granted before it begins");
        self.ledger.commit(self.now, start, bill, tier);
        self.ledger.note_start(start.at, bill);
        self.term.budget_mut().charge(self.resource, bill, start.at);
        self.meter.count(granted.class, bill);
        self.calls.begin(self.now, start);
        if let Some(shadow) = &bill.shadow {
            for limit in shadow.applicable().limits() {
                self.shadow_limits.note_granted(self.now, start, limit, &shadow.only(limit), latest);
            }
        }
    }

    /// Takes a start out of all counts, because its call was not made.
    pub(crate) fn uncharge(&mut self, granted: Granted, bill: &Bill) {
        assert!(granted.is_open(), "a call that is over gives nothing back");
        self.calls.withdraw(granted.start);
        let occupied = self.occupied(granted.start, bill);
        self.term.budget_mut().release(self.resource, granted.start, bill, occupied, CallMade::No);
        self.meter.take_out(granted.class, bill);
        if granted.is_promised(self.now) {
            self.ledger.withdraw(self.now, granted.start, bill);
        } else {
            self.ledger.correct(self.now, granted.start, bill, &Bill::new(), CallMade::No);
        }
        self.shadow_limits.correct(self.now, granted.start, bill, None);
    }

    /// Corrects all counts to the actual cost. A call that was made before its start counts from
    /// now.
    pub(crate) fn use_up(&mut self, granted: Granted, bill: &Bill, actual: &Bill) {
        let occupied = self.occupied(granted.start, bill);
        if granted.is_promised(self.now) {
            self.ledger.withdraw(self.now, granted.start, bill);
            let early = StartKey { at: self.now, ..granted.start };
            self.ledger.commit(self.now, early, actual, self.resource.tier(granted.class));
            self.ledger.correct(self.now, early, actual, actual, CallMade::Yes);
        } else {
            self.ledger.correct(self.now, granted.start, bill, actual, CallMade::Yes);
        }
        self.meter.correct(granted.class, bill, actual);
        self.term.budget_mut().charge(self.resource, &actual.excess_over(bill), self.now);
        self.term.budget_mut().release(self.resource, granted.start, bill, occupied, CallMade::Yes);
    }

    /// Renews the leases of a call in flight. The call takes expired places again. Returns whether
    /// there was room for it.
    pub(crate) fn renew(&mut self, key: StartKey, bill: &Bill) -> bool {
        let mut expired = self.resource.in_flight_part(bill);
        self.ledger.leases(self.now, key, bill).for_each(|(limit, _)| expired.set(limit, Amount::ZERO));
        self.term.budget_mut().charge(self.resource, &expired, self.now);
        self.ledger.renew(self.now, key, bill)
    }

    /// Charges the places of a call in flight that a predecessor has granted.
    pub(crate) fn count_anew(&mut self, key: StartKey, bill: &Bill) {
        self.ledger.renew(self.now, key, bill);
        self.term.budget_mut().charge(self.resource, bill, self.now);
        self.calls.begin(self.now, key);
    }

    /// The limits in which the call of `key` still holds its place.
    fn occupied(&self, key: StartKey, bill: &Bill) -> LimitSet {
        if key.at > self.now {
            return LimitSet::NONE;
        }
        self.ledger.leases(self.now, key, bill).map(|(limit, _)| limit).fold(LimitSet::NONE, LimitSet::with)
    }

    /// Goes on under other limits.
    pub(crate) fn change_limits(&mut self, resource: &Resource, succession: &Succession) {
        self.ledger.change(self.now, resource, succession);
        self.shadow_limits.change(self.now, resource);
        self.term.change_limits(resource);
        self.calls.change_limits();
        self.meter.change_limits(resource);
    }
}

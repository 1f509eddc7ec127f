//! What a start takes of the limits, of the grant budget and of what clients have used.

use crate::adaptation::RecentCalls;
use crate::fencing::Term;
use crate::ids::Tier;
use crate::ledger::{Ledger, ShadowLimits, UseMeter};
use crate::limits::{CallMade, StartKey};
use crate::permits::Granted;
use crate::policy::{Bill, LimitSet, Resource, Succession};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};

/// All that counts starts.
///
/// Invariant: a start that was committed and not withdrawn counts in each of these, at the bill of
/// its permit until the call is settled, and at its actual cost then.
#[derive(Debug)]
pub(crate) struct Charges<'a> {
    pub(super) resource: &'a Resource,
    pub(super) ledger: &'a mut Ledger,
    pub(super) shadow_limits: &'a mut ShadowLimits,
    pub(super) term: &'a mut Term,
    pub(super) calls: &'a mut RecentCalls,
    pub(super) meter: &'a mut UseMeter,
}

impl Charges<'_> {
    /// Charges a start; its request allows none later than `latest`.
    pub(crate) fn commit(&mut self, now: Time, granted: Granted, bill: &Bill, tier: Tier, latest: Time) {
        let start = granted.start;
        self.ledger.commit(now, start, bill, tier);
        self.ledger.note_start(start.at, bill);
        self.term.charge(self.resource, bill, start.at);
        self.meter.count(granted.class, bill);
        self.calls.begin(now, start);
        if let Some(shadow) = &bill.shadow {
            for limit in shadow.applicable().limits() {
                self.shadow_limits.note_granted(now, start, limit, &shadow.only(limit), latest);
            }
        }
    }

    /// Makes all as if the start had never been promised.
    pub(crate) fn uncharge(&mut self, now: Time, granted: Granted, bill: &Bill) {
        self.calls.withdraw(granted.start);
        let places = self.places(now, granted.start, bill);
        self.term.release(self.resource, granted.start, bill, places, CallMade::No);
        self.meter.take_out(granted.class, bill);
        self.discharge(now, granted.start, bill);
        self.shadow_limits.correct(now, granted.start, bill, None);
    }

    /// Puts a start off and returns the new one. If it is due now, it is charged now, whatever its
    /// buckets hold. A later one moves to where it breaks no other promise.
    pub(crate) fn put_off(&mut self, now: Time, granted: Granted, bill: &Bill, by: Span) -> StartKey {
        let tier = self.resource.tier(granted.class);
        self.discharge(now, granted.start, bill);
        let at = granted.start.at + by;
        let at = if at <= now { now } else { self.ledger.earliest(at, bill, tier).at };
        let key = StartKey { at, ..granted.start };
        self.ledger.commit(now, key, bill, tier);
        self.calls.withdraw(granted.start);
        self.calls.begin(now, key);
        key
    }

    /// Makes the buckets as if the start of `key` had never been promised.
    fn discharge(&mut self, now: Time, key: StartKey, bill: &Bill) {
        if key.at > now {
            self.ledger.withdraw(now, key, bill);
        } else {
            self.ledger.correct(now, key, bill, &Bill::new(), CallMade::No);
        }
    }

    /// Corrects all to the actual cost. A call that was made before its start counts from now.
    pub(crate) fn use_up(&mut self, now: Time, granted: Granted, bill: &Bill, actual: &Bill) {
        let places = self.places(now, granted.start, bill);
        if granted.is_promised(now) {
            self.ledger.withdraw(now, granted.start, bill);
            let early = StartKey { at: now, ..granted.start };
            self.ledger.commit(now, early, actual, self.resource.tier(granted.class));
            self.ledger.correct(now, early, actual, actual, CallMade::Yes);
        } else {
            self.ledger.correct(now, granted.start, bill, actual, CallMade::Yes);
        }
        self.meter.correct(granted.class, bill, actual);
        self.term.charge(self.resource, &actual.excess_over(bill), now);
        self.term.release(self.resource, granted.start, bill, places, CallMade::Yes);
    }

    /// Renews the leases of a call in flight, which takes places anew that have expired. Whether
    /// there was room for it.
    pub(crate) fn renew(&mut self, now: Time, key: StartKey, bill: &Bill) -> bool {
        let mut expired = self.resource.in_flight_part(bill);
        self.ledger.leases(now, key, bill).for_each(|(limit, _)| expired.set(limit, Amount::ZERO));
        self.term.charge(self.resource, &expired, now);
        self.ledger.renew(now, key, bill)
    }

    /// Charges the places of a call in flight that a predecessor has granted.
    pub(crate) fn count_anew(&mut self, now: Time, key: StartKey, bill: &Bill) {
        self.ledger.renew(now, key, bill);
        self.term.charge(self.resource, bill, now);
        self.calls.begin(now, key);
    }

    /// The limits in which the call of `key` still holds its place.
    fn places(&self, now: Time, key: StartKey, bill: &Bill) -> LimitSet {
        if key.at > now {
            return LimitSet::default();
        }
        self.ledger.leases(now, key, bill).map(|(limit, _)| limit).fold(LimitSet::default(), LimitSet::with)
    }

    /// Goes on under other limits.
    pub(crate) fn change_limits(&mut self, now: Time, resource: &Resource, succession: &Succession) {
        self.ledger.change(now, resource, succession);
        self.shadow_limits.change(now, resource);
        self.term.change_limits(resource);
        self.calls.change_limits();
        self.meter.change_limits(resource);
    }
}

//! Calls of quotas that a crashed predecessor granted, and whose settles it has not seen.
//!
//! A call reserves the most that it may cost. The settle of a call that the record names gives the
//! rest back, once. Other calls stay charged in full: those that were granted after the record was
//! written, and in a crowd those that started first.
//!
//! The predecessor may live on. It may then grant what its last checkpoint allows, which the record
//! counts as spent; a settle of a call that was made gives it nothing beyond that.

use crate::durability::snapshot::{RecordSpace, UnsettledCall, encoded};
use crate::event::Outcome;
use crate::limits::{CallMade, MAX_CLOCK_SKEW, StartKey};
use crate::offset::Offset;
use crate::permits::Granted;
use crate::scheduler::Scheduler;
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::{Bill, Limit, by_unit};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};

/// The most calls of a record, some 100 bytes each.
const MAX_LISTED: usize = 500;
/// The most permits that a checkpoint looks at to find them.
const MAX_SEEN: usize = 1000;
/// How long into a term settles of a predecessor's calls give something back.
const KEPT_FOR: Span = Span::from_secs(3600);

impl<R: Clone> Scheduler<R> {
    /// Returns the calls whose settles may give something back, own ones first, as far as they fit.
    pub(super) fn unsettled_calls(&mut self, now: Time, mut space: RecordSpace) -> Vec<UnsettledCall> {
        if !self.term.began_within(now, KEPT_FOR) {
            self.unsettled.clear();
        }
        let seen = if self.resource.limits().iter().any(Limit::is_quota) { MAX_SEEN } else { 0 };
        let own = self.permits.latest().take(seen).filter_map(|permit| {
            let Granted { start, .. } = permit.granted().filter(Granted::is_open)?;
            let bill = self.ledger.returnable_part(now, &permit.bill);
            (!bill.is_empty()).then(|| self.unsettled_call(now, &permit.id, start, &bill))
        });
        let recorded = self.unsettled.iter().map(|(id, (start, bill))| self.unsettled_call(now, id, *start, bill));
        space.fitting(1, MAX_LISTED, own.chain(recorded), encoded)
    }

    fn unsettled_call(&self, now: Time, id: &PermitId, start: StartKey, bill: &Bill) -> UnsettledCall {
        let (bill, keyed) = self.recorded(bill);
        UnsettledCall { id: id.clone(), start: Offset::between(now, start.at), bill, keyed }
    }

    /// Remembers a call of the record, unless a permit is known that was charged the same. It may have
    /// started earlier than the record's age tells: then its window may be over.
    pub(super) fn restore_unsettled(&mut self, then: Time, call: &UnsettledCall) {
        let bill = self.charges_of(&call.bill, &call.keyed);
        if self.permits.find(&call.id).is_none() && !bill.is_empty() {
            let start = StartKey { at: call.start.after(then) - MAX_CLOCK_SKEW, serial: self.permits.next_serial() };
            self.ledger.expect_settle(then, start, &bill);
            self.unsettled.insert(call.id.clone(), (start, bill));
        }
    }

    /// Gives back what a predecessor's call has not cost. Returns whether its units are valid; `None`
    /// if no record names it.
    pub(crate) fn end_recorded(&mut self, now: Time, id: &PermitId, outcome: &Outcome) -> Option<Result<(), Refusal>> {
        let (start, bill) = self.unsettled.remove(id)?;
        let cost: &[_] = if let Outcome::Used(cost) = outcome { cost } else { &[] };
        let used = self.resource.corrected(&bill, by_unit(cost));
        let actual = if *outcome == Outcome::Unused { Bill::default() } else { used };
        self.ledger.correct(now, start, &bill, &actual, CallMade::Yes);
        self.term.budget.charge(&self.resource, &actual.excess_over(&bill), now);
        Some(self.resource.check_units(by_unit(cost)))
    }
}

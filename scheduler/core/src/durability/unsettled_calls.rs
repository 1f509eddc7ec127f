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
use crate::limits::{CallMade, StartKey};
use crate::offset::Offset;
use crate::permits::Granted;
use crate::scheduler::Scheduler;
use rampmeter_policy::spec::RETENTION;
use rampmeter_policy::{Bill, Limit, by_unit};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::Time;

/// The most calls of a record, some 100 bytes each.
const MAX_LISTED: usize = 500;
/// The most permits that a checkpoint looks at to find them.
const MAX_SEEN: usize = 4000;
/// The part of a record's space that they may take.
const PART: usize = 8;

impl<R: Clone> Scheduler<R> {
    /// Returns the calls whose settles may give something back, those that started last first.
    pub(super) fn unsettled_calls(&mut self, now: Time, space: &mut RecordSpace) -> Vec<UnsettledCall> {
        self.unsettled.retain(|_, (start, _)| start.at + RETENTION > now);
        if !self.resource.limits().iter().any(Limit::is_quota) {
            return Vec::new();
        }
        let own = self.permits.latest().take(MAX_SEEN).filter_map(|permit| {
            let Granted { start, .. } = permit.granted().filter(Granted::is_open)?;
            let bill = self.ledger.returnable_part(now, &permit.bill);
            (!bill.is_empty()).then(|| self.unsettled_call(now, &permit.id, start, &bill))
        });
        let of_predecessors =
            self.unsettled.iter().map(|(id, (start, bill))| self.unsettled_call(now, id, *start, bill));
        space.fitting(PART, MAX_LISTED, own.chain(of_predecessors), encoded)
    }

    fn unsettled_call(&self, now: Time, id: &PermitId, start: StartKey, bill: &Bill) -> UnsettledCall {
        let (bill, keyed) = self.recorded(bill);
        UnsettledCall { id: id.clone(), start: Offset::between(now, start.at), bill, keyed }
    }

    pub(super) fn restore_unsettled(&mut self, then: Time, call: &UnsettledCall) {
        if self.permits.find(&call.id).is_none() {
            let start = StartKey { at: call.start.after(then), serial: self.permits.next_serial() };
            self.unsettled.insert(call.id.clone(), (start, self.charges_of(&call.bill, &call.keyed)));
        }
    }

    /// Gives back what a predecessor's call has not cost. Returns whether the record names it.
    pub(crate) fn settle_unsettled(&mut self, now: Time, id: &PermitId, outcome: &Outcome) -> bool {
        let (actual, made): (&[_], _) = match outcome {
            Outcome::Extend => return false,
            Outcome::Unused => (&[], CallMade::No),
            Outcome::Used(cost) => (cost, CallMade::Yes),
        };
        let Some((start, bill)) = self.unsettled.remove(id) else { return false };
        let used = self.resource.corrected(&bill, by_unit(actual));
        let actual = if made == CallMade::No { Bill::default() } else { used };
        self.ledger.correct(now, start, &bill, &actual, made);
        self.term.budget.charge(&self.resource, &actual.excess_over(&bill), now);
        true
    }
}

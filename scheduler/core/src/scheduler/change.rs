//! A change of limits while permits are out and requests wait.
//!
//! The new limits are in force at once. Waiting requests are charged by them in short steps, which
//! this event and the following wake-ups take: class by class, in the order of arrival. Meanwhile
//! no waiting request is dispatched, and new requests queue after all waiting ones. A hand-over
//! takes the same steps, and refuses each request.

use super::Scheduler;
use super::former_limits::NextLimits;
use crate::collections::Slot;
use crate::policy::{Bill, Call, Resource, Succession, only_widens};
use crate::refusal::Refusal;
use rampmeter_protocol::time::Time;
use std::sync::Arc;

/// Waiting requests that one event charges by changed limits. This takes half a
/// millisecond.
const MAX_CHARGED: usize = 64;
/// Waiting requests that one event refuses in a hand-over. This takes half a millisecond.
const MAX_SENT_AWAY: usize = 256;

impl<R: Clone> Scheduler<R> {
    /// Goes on under `resource`, which differs in its limits alone.
    ///
    /// * Limits that [go on](Succession) keep their levels and promises. If a limit's size changes,
    ///   its lessons are forgotten.
    /// * New limits begin as the resource says, without the promises made before.
    /// * Waiting requests keep their positions and are charged by the new limits. A request that
    ///   the new limits can never serve is refused.
    /// * Checkpoints written under the former limits allow nothing. Grants wait for a new one.
    /// * If limits only apply to more calls, they do so for new requests, and nothing else changes.
    /// * If too many changes are under way, the latest limits come into force after these.
    pub(crate) fn change_limits(&mut self, now: Time, next: NextLimits) {
        assert!(self.resource.differs_in_limits_alone(&next.resource), "classes and all else stay");
        if self.former.are_many() {
            return self.former.postpone(next);
        }
        let resource = next.resource.with_wall_clock(self.resource.wall_clock());
        if only_widens(&self.resource, &resource) {
            self.ledger.widen(&resource);
            self.resource = resource;
            return;
        }
        let succession = Succession::between(&self.resource, &resource);
        self.charges(now).change_limits(&resource, &succession);
        for (limit, level) in succession.levels_of_new(&resource, &next.left) {
            self.ledger.adaptive_mut(limit).set_level(now, level);
        }
        if !resource.shares_bills_with(&self.resource) {
            self.permits.change(&succession);
        }
        let former = self.begin_version(now, resource);
        self.charge_pending(&former);
        self.continue_change(now);
    }

    /// Puts limits into force that had to wait for other changes.
    pub(crate) fn apply_postponed_limits(&mut self, now: Time) {
        if self.term.is_ending() {
            return;
        }
        if let Some(next) = self.former.take_postponed() {
            self.change_limits(now, next);
        }
    }

    /// Replaces the limits, and takes the turns from all waiting requests. Returns the former
    /// limits.
    pub(crate) fn begin_version(&mut self, now: Time, resource: Resource) -> Resource {
        let former = std::mem::replace(&mut self.resource, resource);
        self.former.add(self.queues.version().changes, former.clone());
        self.queues.begin_version(&self.resource, now);
        self.plan.set_next(None);
        former
    }

    /// Takes the next steps of a change of limits, or of a hand-over.
    pub(crate) fn continue_change(&mut self, now: Time) {
        if !self.former.are_charging() {
            return;
        }
        let steps = if self.term.is_ending() { MAX_SENT_AWAY } else { MAX_CHARGED };
        for _ in 0..steps {
            match self.queues.first_former() {
                Some(slot) if self.term.is_ending() => self.turn_away(slot, Refusal::HandingOver),
                Some(slot) => self.charge_anew(now, slot),
                None => match self.queues.drop_former_key() {
                    Some(key) => self.ledger.keys.note_change(key),
                    None => return self.end_change(now),
                },
            }
        }
    }

    fn end_change(&mut self, now: Time) {
        self.former.end_change();
        self.ask_pending(now);
        self.ledger.note_change();
    }

    /// Charges a waiting request by the present limits, or refuses it.
    fn charge_anew(&mut self, now: Time, slot: Slot) {
        let permit = self.permits.get(slot);
        let (before, waiting) = (Arc::clone(&permit.bill), permit.waiting());
        let former = self.waits(now).limits_of(waiting);
        let is_same = self.resource.shares_bills_with(former);
        let implied = || (!is_same).then(|| Box::new(Call::from_bill(&before, former)));
        let (call, class) = (waiting.call.clone().or_else(implied), waiting.class);
        let bill = self.charge_by(&before, call.as_deref());
        let bill = match bill.and_then(|bill| self.check_keys(now, &bill).map(|()| bill)) {
            Ok(bill) => bill,
            Err(refusal) => return self.turn_away(slot, refusal),
        };
        let waiting = self.permits.get_mut(slot).waiting_mut();
        self.queues.leave_former(waiting, &before, &bill);
        // A call that the bill implies is not stored.
        waiting.call = call.filter(|call| **call != Call::from_bill(&bill, &self.resource));
        drop(before);
        self.permits.set_bill(slot, bill);
        self.enter_queue(slot);
        if self.permits.get(slot).waiting().deadline.is_some() {
            self.offer_or_turn_away(now, slot, self.resource.tier(class));
        }
    }

    /// The bill of a call under the present limits. Without the call, `bill` stays as it is.
    pub(crate) fn charge_by(&self, bill: &Bill, call: Option<&Call>) -> Result<Bill, Refusal> {
        let Some(call) = call else {
            return self.resource.check_payable(bill).map(|()| bill.clone());
        };
        let bill = self.resource.bill(&call.labels, call.cost())?;
        Ok(self.cost_estimates.correct(&self.resource, bill))
    }
}

//! A change of limits while permits are out and requests wait, and the hand-over.
//!
//! Each is one event: every waiting request leaves its queue, and is charged by the new limits or
//! refused. This takes microseconds for each request.

use crate::adaptation::Rejections;
use crate::collections::Slot;
use crate::limits::Bucket;
use crate::scheduler::Scheduler;
use rampmeter_policy::ids::ClassId;
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::{Bill, Call, LimitSet, Resource, Succession, only_widens};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Time;
use std::sync::Arc;

impl<R: Clone> Scheduler<R> {
    /// Continues under `resource`, whose limits alone differ. New limits have what is `left`.
    ///
    /// * Limits that [continue](Succession) keep their levels and promises. If a limit's size
    ///   changes, its lessons are forgotten.
    /// * New limits begin as the resource says, without the promises made before.
    /// * Waiting requests keep their order and are charged by the new limits. A request that the
    ///   new limits can never serve is refused.
    /// * Checkpoints written under the former limits allow nothing. Grants wait for a new one.
    /// * If limits only apply to more calls, they do so for new requests, and nothing else changes.
    pub(crate) fn change_limits(&mut self, now: Time, resource: Resource, left: &[(Name, Amount)]) {
        assert!(self.resource.differs_in_limits_alone(&resource), "classes and all else stay");
        let resource = resource.with_wall_clock(self.resource.wall_clock());
        if only_widens(&self.resource, &resource) {
            self.ledger.widen(&resource);
            self.resource = resource;
            return;
        }
        let succession = Succession::between(&self.resource, &resource);
        self.ledger.change(now, &resource, &succession);
        self.shadow_limits.change(now, &resource);
        self.term.change_limits(&resource);
        self.calls.change_limits();
        self.counters.rejections.unknown += self.rejections.undecided();
        self.rejections = Rejections::default();
        self.meter.change_limits(&self.resource, &resource);
        for (limit, level) in succession.levels_of_new(&resource, left) {
            self.ledger.adaptive_mut(limit).begin_with(|limit| Bucket::new(limit, now, level));
        }
        if !resource.shares_bills_with(&self.resource) {
            self.permits.change(&succession);
            self.unsettled.values_mut().for_each(|(_, bill)| *bill = succession.bill(bill));
        }
        let former = std::mem::replace(&mut self.resource, resource);
        self.charge_pending(&former);
        for slot in self.empty_queues(now) {
            self.charge_anew(now, slot, &former);
        }
        self.ledger.note_change();
    }

    pub(crate) fn hand_over(&mut self, now: Time) {
        self.term.is_ending = true;
        self.give_up_pending(now);
        for slot in self.empty_queues(now) {
            self.refuse_unqueued(slot, Refusal::HandingOver);
        }
        assert_eq!((self.waiting(), self.pending.answers.len()), (0, 0), "the successor answers all that are left");
    }

    /// Empties the queues. Returns all requests class by class, in the order in which they came.
    fn empty_queues(&mut self, now: Time) -> Vec<Slot> {
        self.queues.keys.buckets().for_each(|key| self.ledger.keys.note_change(key));
        self.plan.next = None;
        let waiting = self.queues.empty(&self.resource, now);
        waiting.iter().for_each(|slot| self.permits.get_mut(*slot).waiting_mut().at_key = None);
        waiting
    }

    /// Charges a waiting request, which is in no queue, by the present limits, or refuses it.
    fn charge_anew(&mut self, now: Time, slot: Slot, former: &Resource) {
        let permit = self.permits.get(slot);
        let (before, waiting) = (Arc::clone(&permit.bill), permit.waiting());
        let is_same = self.resource.shares_bills_with(former);
        let implied = || (!is_same).then(|| Box::new(Call::from_bill(&before, former)));
        let (call, class) = (waiting.call.clone().or_else(implied), waiting.class);
        let bill = self.charge_by(&before, call.as_deref(), class);
        let bill = match bill.and_then(|bill| self.check_keys(now, &bill).map(|()| bill)) {
            Ok(bill) => bill,
            Err(refusal) => {
                // A bill is forgotten with the last permit that has it.
                drop(before);
                return self.refuse_unqueued(slot, refusal);
            }
        };
        let waiting = self.permits.get_mut(slot).waiting_mut();
        self.queues.recharge(waiting, &before, &bill);
        // A call that the bill implies is not stored.
        let implied = |call: &Call| bill.alternatives.is_none() && *call == Call::from_bill(&bill, &self.resource);
        waiting.call = call.filter(|call| !implied(call));
        drop(before);
        self.permits.set_bill(slot, bill);
        self.enter_queue(slot);
        if self.permits.get(slot).waiting().deadline.is_some() {
            self.offer_or_turn_away(now, slot, self.resource.tier(class), LimitSet::NONE);
        }
    }

    fn refuse_unqueued(&mut self, slot: Slot, refusal: Refusal) {
        let waiting = self.stop_waiting(slot);
        let id = self.permits.remove(slot).id;
        self.refuse(waiting.to, id, refusal);
    }

    /// Returns the bill of a call under the present limits. Without a call, `bill` stays as it is.
    pub(crate) fn charge_by(&self, bill: &Bill, call: Option<&Call>, class: ClassId) -> Result<Bill, Refusal> {
        let Some(call) = call else {
            bill.options().try_for_each(|option| self.resource.check_payable(option))?;
            return Ok(bill.clone());
        };
        let bill = self.resource.bill_of_ways(call, class)?;
        Ok(self.bound(self.cost_estimates.correct(&self.resource, bill), class))
    }
}

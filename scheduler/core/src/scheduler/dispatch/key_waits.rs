//! Waiting for keys: a request that a key's bucket holds up waits in the queue of that key, and
//! blocks no request with other keys.
//!
//! The first request of a key queue moves to the queue of its class once the key can pay for it.
//!
//! There, another key may hold the request up. It then moves to the queue of that key, and the
//! first key reserves the needed amount until the other can pay. Each key reserves for one request
//! only, and only while that is the next request of the other key. Of requests that wait for each
//! other's keys, the earliest goes on. So no request waits for ever.
//!
//! A key without a budget of the latest checkpoint waits for the next one, which lists it.

use crate::collections::Slot;
use crate::ids::Tier;
use crate::ledger::Ledger;
use crate::limits::just_past;
use crate::policy::Bill;
use crate::scheduler::Scheduler;
use rampmeter_protocol::time::Time;
use std::sync::Arc;

/// The buckets of the keys that a bill charges.
pub(in crate::scheduler) fn keys_of(ledger: &Ledger, bill: &Bill) -> Vec<Slot> {
    bill.keyed().filter_map(|charge| ledger.keys.find(charge.limit, &charge.key)).collect()
}

impl<R: Clone> Scheduler<R> {
    /// Moves a request from the queue of its class to that of a key that holds it up. Returns false
    /// if no key does.
    pub(crate) fn wait_for_key(&mut self, now: Time, slot: Slot, tier: Tier) -> bool {
        let Some(charge) = self.waits(now).blocking_key(slot, tier).cloned() else { return false };
        let bucket = self.ledger.keys.find_or_insert(now, &charge);
        self.ledger.keys.set_awaited(bucket, true);
        let cost = self.ledger.keys.limit_of(&charge).rate().credit(charge.amount);
        let permit = self.permits.get_mut(slot);
        let bill = Arc::clone(&permit.bill);
        self.queues.wait_for_key(&self.resource, slot, permit.waiting_mut(), (bucket, cost));
        keys_of(&self.ledger, &bill).into_iter().for_each(|key| self.ledger.keys.note_change(key));
        true
    }

    /// Examines each key that has changed, or whose alarm goes off.
    pub(crate) fn examine_keys(&mut self, now: Time) {
        let latest = now + self.resource.spec().horizon;
        while self.plan.has_steps()
            && let Some(bucket) = self.ledger.keys.pop_changed().or_else(|| self.queues.keys.next_alarm_until(latest))
        {
            self.plan.take_step();
            self.examine_key(now, bucket, latest);
        }
    }

    /// Moves the first request of a key queue to the queue of its class, or sets the alarm for when
    /// it may go. The second request is examined after the first has left, or in the next dispatch.
    fn examine_key(&mut self, now: Time, bucket: Slot, latest: Time) {
        self.queues.keys.clear_alarm(bucket);
        let queue = self.queues.keys.get(bucket);
        let Some((_, first)) = queue.and_then(|queue| queue.first(self.resource.classes(), now)) else {
            let is_awaited = !self.queues.keys.close_deserted(bucket);
            return self.ledger.keys.set_awaited(bucket, is_awaited);
        };
        let permit = self.permits.get(first);
        let limit = self.ledger.keys.get(bucket).expect("a bucket with a key queue stays").limit;
        let charge = permit.bill.key_charge(limit).expect("a request in a key queue is charged for its key").clone();
        let due = self.waits(now).earliest_of_key(first, &charge, self.resource.tier(permit.waiting().class));
        if due <= latest && self.waits(now).lacks_budget(&charge) {
            self.term.budget_mut().note_key_shortage();
            return self.queues.keys.wait_for_budget(bucket);
        }
        if due <= latest {
            self.admit(now, bucket, first);
            return self.queues.keys.set_alarm(bucket, just_past(latest));
        }
        let is_quota = self.resource[limit].is_quota();
        // A refused request notes its key, which is examined again.
        if !is_quota || !self.turn_away_if_spent(now, first) {
            self.queues.keys.set_alarm(bucket, due);
        }
    }

    /// Moves the first request of a key queue to the queue of its class.
    fn admit(&mut self, now: Time, bucket: Slot, slot: Slot) {
        let is_kept_for_another = self.waits(now).kept_before(slot, bucket).is_some();
        self.queues.admit(slot, self.permits.get_mut(slot).waiting_mut(), bucket, !is_kept_for_another);
        self.enter_queue(slot);
    }

    /// Examines the keys again that waited for the checkpoint which the store holds now.
    pub(crate) fn note_budgets(&mut self) {
        self.queues.keys.take_budgeted().into_iter().for_each(|key| self.ledger.keys.note_change(key));
    }

    /// When the next key is to be examined.
    pub(crate) fn next_key_alarm(&self) -> Option<Time> {
        self.queues.keys.next_alarm().map(|(alarm, _)| alarm - self.resource.spec().horizon)
    }
}

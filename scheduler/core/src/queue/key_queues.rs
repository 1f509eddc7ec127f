//! The queues of all keys, by the slot of each key's bucket.
//!
//! A request that has waited for a key precedes only those requests of its client that have the
//! same limit set. The other requests wait for other limits, so their order does not matter.
//!
//! A request for two keys waits for one of them, while the other keeps the amount that it needs. If
//! the request stood first in both queues, a freeze of one key would stop the other. Other requests
//! of the keeping key start meanwhile, unless they would delay the request's earliest start.

use super::key_queue::KeyQueue;
use crate::collections::Slot;
use crate::ids::ClassId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The most keys that one checkpoint gives a budget because requests wait for it: a third of the
/// keys that it may list.
const MAX_BUDGETED: usize = 1000;

/// The queues of keys that requests wait for, and when each is examined again.
///
/// Invariant: `alarms` has a queue's alarm exactly as long as the queue has one.
#[derive(Debug, Default)]
pub(crate) struct KeyQueues {
    queues: BTreeMap<Slot, KeyQueue>,
    alarms: BTreeSet<(Time, Slot)>,
    /// Keys whose first request waits for a checkpoint with a budget.
    lacking_budget: VecDeque<Slot>,
}

impl KeyQueues {
    pub(crate) fn get(&self, bucket: Slot) -> Option<&KeyQueue> {
        self.queues.get(&bucket)
    }

    /// Frees the amount of a key that is kept for the request in `slot`, if there is one.
    pub(super) fn release(&mut self, bucket: Slot, slot: Slot) {
        self.queues.get_mut(&bucket).into_iter().for_each(|queue| queue.release(slot));
    }

    /// Notes that a call of a client starts, if requests wait for its key.
    pub(super) fn note_start(
        &mut self,
        bucket: Slot,
        class: ClassId,
        client: &Arc<str>,
        service: Span,
        served: Option<Time>,
    ) {
        self.queues.get_mut(&bucket).into_iter().for_each(|queue| queue.note_start(class, client, service, served));
    }

    /// Lets a key wait for a checkpoint with a budget for it.
    pub(crate) fn wait_for_budget(&mut self, bucket: Slot) {
        if !std::mem::replace(&mut self.open(bucket).lacks_budget, true) {
            self.lacking_budget.push_back(bucket);
        }
    }

    /// The keys that the next checkpoint gives a budget: those that have waited the longest.
    pub(crate) fn next_for_budget(&self) -> impl Iterator<Item = Slot> {
        self.lacking_budget.iter().take(MAX_BUDGETED).copied()
    }

    /// Takes the keys that waited for the checkpoint which the store holds now.
    pub(crate) fn take_budgeted(&mut self) -> Vec<Slot> {
        let count = self.lacking_budget.len().min(MAX_BUDGETED);
        let budgeted: Vec<Slot> = self.lacking_budget.drain(..count).collect();
        for bucket in &budgeted {
            self.queues.get_mut(bucket).into_iter().for_each(|queue| queue.lacks_budget = false);
        }
        budgeted
    }

    /// The queue of a key; creates it if there is none.
    pub(super) fn open(&mut self, bucket: Slot) -> &mut KeyQueue {
        self.queues.entry(bucket).or_default()
    }

    /// Removes the queue of a key unless a request needs it. Returns whether the key has no queue
    /// now.
    pub(crate) fn close_deserted(&mut self, bucket: Slot) -> bool {
        let is_deserted = self.get(bucket).is_none_or(KeyQueue::is_deserted);
        if is_deserted {
            self.clear_alarm(bucket);
            self.queues.remove(&bucket);
        }
        is_deserted
    }

    /// The buckets of all keys with a queue.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = Slot> {
        self.queues.keys().copied()
    }

    pub(crate) fn next_alarm(&self) -> Option<(Time, Slot)> {
        self.alarms.first().copied()
    }

    /// The bucket of the key with the earliest alarm, if that is not after `latest`.
    pub(crate) fn next_alarm_until(&self, latest: Time) -> Option<Slot> {
        self.next_alarm().filter(|(alarm, _)| *alarm <= latest).map(|(_, bucket)| bucket)
    }

    pub(crate) fn set_alarm(&mut self, bucket: Slot, alarm: Time) {
        self.clear_alarm(bucket);
        self.open(bucket).alarm = Some(alarm);
        self.alarms.insert((alarm, bucket));
    }

    pub(crate) fn clear_alarm(&mut self, bucket: Slot) {
        if let Some(before) = self.queues.get_mut(&bucket).and_then(|queue| queue.alarm.take()) {
            assert!(self.alarms.remove(&(before, bucket)), "a key queue with an alarm is in the list of alarms");
        }
    }
}

//! When the far debts of keys are paid.

use crate::collections::Slot;
use crate::policy::Limit;
use rampmeter_protocol::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The buckets of keys with far debts, by the time at which these are paid.
///
/// Invariant: a bucket in `until` is in one of the other sets, with the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct FarDebts {
    of_short_limits: BTreeSet<(Time, Slot)>,
    /// Those of limits whose keys checkpoints list.
    of_listed_limits: BTreeSet<(Time, Slot)>,
    until: BTreeMap<Slot, Time>,
}

impl FarDebts {
    pub(super) fn insert(&mut self, limit: &Limit, paid: Time, slot: Slot) {
        let debts = if limit.lists_keys() { &mut self.of_listed_limits } else { &mut self.of_short_limits };
        debts.insert((paid, slot));
        self.until.insert(slot, paid);
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        if let Some(paid) = self.until.remove(&slot) {
            self.of_short_limits.remove(&(paid, slot));
            self.of_listed_limits.remove(&(paid, slot));
        }
    }

    /// Forgets debts that are paid at this time or earlier.
    pub(super) fn forget_until(&mut self, latest: Time) {
        for debts in [&mut self.of_short_limits, &mut self.of_listed_limits] {
            while let Some((_, slot)) = debts.first().copied().filter(|(paid, _)| *paid <= latest) {
                debts.pop_first();
                self.until.remove(&slot);
            }
        }
        let listed = self.of_short_limits.len() + self.of_listed_limits.len();
        assert_eq!(listed, self.until.len(), "a far debt is listed once");
    }

    /// Those of short limits, the last first.
    pub(super) fn of_short_limits(&self) -> impl Iterator<Item = (Time, Slot)> {
        self.of_short_limits.iter().rev().copied()
    }

    /// Those of limits whose keys checkpoints list, the last first.
    pub(super) fn of_listed_limits(&self) -> impl Iterator<Item = (Time, Slot)> {
        self.of_listed_limits.iter().rev().copied()
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.of_short_limits.iter().chain(&self.of_listed_limits).map(|(_, slot)| *slot)
    }
}

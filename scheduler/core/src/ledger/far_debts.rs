//! When the far debts of keys are paid.

use crate::collections::Slot;
use rampmeter_protocol::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The buckets of keys with far debts, by the time at which these are paid.
///
/// Invariant: a bucket in `until` is in one set of `debts`, with the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct FarDebts {
    /// Those of limits whose keys checkpoints do not list, and of those whose keys they list.
    debts: [BTreeSet<(Time, Slot)>; 2],
    until: BTreeMap<Slot, Time>,
}

impl FarDebts {
    pub(super) fn insert(&mut self, is_listed: bool, paid: Time, slot: Slot) {
        self.debts[usize::from(is_listed)].insert((paid, slot));
        assert!(self.until.insert(slot, paid).is_none(), "a bucket has one far debt");
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        if let Some(paid) = self.until.remove(&slot) {
            assert!(self.debts.iter_mut().any(|debts| debts.remove(&(paid, slot))), "a far debt is in a set");
        }
    }

    /// Forgets debts that are paid at this time or earlier.
    pub(super) fn forget_until(&mut self, latest: Time) {
        for debts in &mut self.debts {
            while let Some((_, slot)) = debts.first().copied().filter(|(paid, _)| *paid <= latest) {
                debts.pop_first();
                self.until.remove(&slot);
            }
        }
        assert_eq!(self.debts.iter().map(BTreeSet::len).sum::<usize>(), self.until.len(), "a far debt is listed once");
    }

    /// Those of limits whose keys checkpoints list, or the others, the last first.
    pub(super) fn last_first(&self, are_listed: bool) -> impl Iterator<Item = (Time, Slot)> {
        self.debts[usize::from(are_listed)].iter().rev().copied()
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.debts.iter().flatten().map(|(_, slot)| *slot)
    }
}

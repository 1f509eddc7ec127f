//! Budgets for single keys of limits with long periods.

use super::allowance::Allowance;
use crate::arithmetic::Credit;
use crate::ids::LimitId;
use crate::policy::{Bill, KeyCharge, KeyName, Resource};
use rampmeter_protocol::amount::Amount;
use std::collections::BTreeMap;

/// The budget of a checkpoint for keys of limits with long periods.
#[derive(Clone, Debug)]
pub(crate) struct KeyBudgets {
    /// Listed keys, and keys with grants since the checkpoint.
    keys: BTreeMap<KeyName, Allowance>,
    /// For each limit, the budget of a key that is not listed.
    others: Vec<Credit>,
}

impl KeyBudgets {
    pub(crate) fn new(listed: Vec<(KeyName, Credit)>, others: Vec<Credit>) -> Self {
        let keys = listed.into_iter().map(|(name, budget)| (name, Allowance::new(budget))).collect();
        KeyBudgets { keys, others }
    }

    /// The budget of each unlisted key of `limit`.
    pub(crate) fn of_others(&self, limit: LimitId) -> Credit {
        self.others[limit.index()]
    }

    pub(crate) fn cover(&self, resource: &Resource, bill: &Bill) -> bool {
        long(resource, bill).all(|charge| {
            let known = self.keys.get(&charge.name()).copied();
            known.unwrap_or(Allowance::new(self.of_others(charge.limit))).covers(credit(resource, charge))
        })
    }

    pub(crate) fn charge(&mut self, resource: &Resource, bill: &Bill) {
        for charge in long(resource, bill) {
            let new = Allowance::new(self.of_others(charge.limit));
            self.keys.entry(charge.name()).or_insert(new).charge(credit(resource, charge));
        }
    }

    pub(crate) fn give_back(&mut self, resource: &Resource, bill: &Bill) {
        for charge in long(resource, bill) {
            self.keys.entry(charge.name()).and_modify(|allowance| allowance.give_back(credit(resource, charge)));
        }
    }

    /// The budget of a key in the next checkpoint.
    pub(crate) fn expected(&self, resource: &Resource, name: &KeyName) -> Credit {
        let one = resource.limits()[name.0.index()].rate().credit(Amount::ONE);
        self.keys.get(name).map_or(Credit::ZERO, |allowance| allowance.fading(one))
    }
}

/// The charges of `bill` to keys of limits with long periods.
pub(crate) fn long<'a>(resource: &'a Resource, bill: &'a Bill) -> impl Iterator<Item = &'a KeyCharge> {
    bill.keyed().filter(|charge| resource.limits()[charge.limit.index()].lists_keys())
}

pub(crate) fn credit(resource: &Resource, charge: &KeyCharge) -> Credit {
    resource.limits()[charge.limit.index()].rate().credit(charge.amount)
}

//! Budgets of keys of long limits, one by one.

use super::allowance::Allowance;
use crate::arithmetic::Credit;
use crate::ids::LimitId;
use crate::policy::{Bill, KeyCharge, KeyName, Resource};
use rampmeter_protocol::amount::Amount;
use std::collections::BTreeMap;

/// What a checkpoint allows of each key of a long limit.
#[derive(Clone, Debug)]
pub(crate) struct KeyBudgets {
    /// Keys that it lists, and those that were granted something since.
    keys: BTreeMap<KeyName, Allowance>,
    /// By limit, for a key that it does not list.
    others: Vec<Credit>,
}

impl KeyBudgets {
    /// So much for each listed key, and for each of the others by limit.
    pub(crate) fn new(listed: Vec<(KeyName, Credit)>, others: Vec<Credit>) -> Self {
        let keys = listed.into_iter().map(|(name, budget)| (name, Allowance::new(budget))).collect();
        KeyBudgets { keys, others }
    }

    /// What is allowed to each key of a limit that is not listed.
    pub(crate) fn of_others(&self, limit: LimitId) -> Credit {
        self.others[limit.index()]
    }

    /// Whether enough is left for `bill`.
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

    /// What was charged is there again.
    pub(crate) fn give_back(&mut self, resource: &Resource, bill: &Bill) {
        for charge in long(resource, bill) {
            self.keys.entry(charge.name()).and_modify(|allowance| allowance.give_back(credit(resource, charge)));
        }
    }

    /// What the next checkpoint is to allow of a key.
    pub(crate) fn expected(&self, resource: &Resource, name: &KeyName) -> Credit {
        let one = resource.limits()[name.0.index()].rate().credit(Amount::ONE);
        self.keys.get(name).map_or(Credit::ZERO, |allowance| allowance.fading(one))
    }
}

/// What `bill` takes of keys of long limits.
pub(crate) fn long<'a>(resource: &'a Resource, bill: &'a Bill) -> impl Iterator<Item = &'a KeyCharge> {
    bill.keyed().filter(|charge| resource.limits()[charge.limit.index()].lists_keys())
}

pub(crate) fn credit(resource: &Resource, charge: &KeyCharge) -> Credit {
    resource.limits()[charge.limit.index()].rate().credit(charge.amount)
}

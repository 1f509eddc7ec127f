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
    unlisted: Vec<Credit>,
}

impl KeyBudgets {
    pub(crate) fn new(listed: Vec<(KeyName, Credit)>, unlisted: Vec<Credit>) -> Self {
        let count = listed.len();
        let keys: BTreeMap<_, _> = listed.into_iter().map(|(name, budget)| (name, Allowance::new(budget))).collect();
        assert_eq!(keys.len(), count, "a key is listed once");
        KeyBudgets { keys, unlisted }
    }

    pub(crate) fn of_unlisted(&self, limit: LimitId) -> Credit {
        self.unlisted[limit.index()]
    }

    /// How many keys are listed or have grants.
    pub(crate) fn count(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn cover(&self, resource: &Resource, charge: &KeyCharge) -> bool {
        if !resource[charge.limit].lists_keys() {
            return true;
        }
        let known = self.keys.get(&charge.name()).copied();
        let budget = known.unwrap_or(Allowance::new(self.of_unlisted(charge.limit)));
        budget.covers(resource.credit(charge.limit, charge.amount))
    }

    pub(crate) fn charge(&mut self, resource: &Resource, bill: &Bill) {
        for charge in long_charges(resource, bill) {
            let new = Allowance::new(self.of_unlisted(charge.limit));
            self.keys.entry(charge.name()).or_insert(new).charge(resource.credit(charge.limit, charge.amount));
        }
    }

    pub(crate) fn give_back(&mut self, resource: &Resource, bill: &Bill, returns: impl Fn(LimitId) -> bool) {
        for charge in long_charges(resource, bill).filter(|charge| returns(charge.limit)) {
            self.keys
                .entry(charge.name())
                .and_modify(|allowance| allowance.give_back(resource.credit(charge.limit, charge.amount)));
        }
    }

    /// The budget of a key in the next checkpoint. The budget of an idle key `fades`.
    pub(crate) fn expected(&self, resource: &Resource, name: &KeyName, fades: bool) -> Credit {
        let one = resource.credit(name.limit, Amount::ONE);
        let Some(allowance) = self.keys.get(name) else { return Credit::ZERO };
        match resource[name.limit].counts_calls_in_flight() {
            true => allowance.expected_places(one, fades),
            false => allowance.expected_of_key(one, fades),
        }
    }
}

/// The charges of `bill` to keys of limits with long periods.
pub(crate) fn long_charges<'a>(resource: &'a Resource, bill: &'a Bill) -> impl Iterator<Item = &'a KeyCharge> {
    bill.keyed().filter(|charge| resource[charge.limit].lists_keys())
}

//! What the latest checkpoint allows to be granted of one bucket, and by key.

use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::{Bill, KeyCharge, KeyName, Resource};
use rampmeter_protocol::amount::Amount;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(crate) struct KeyBudgets {
    /// Listed keys, and keys with grants since the checkpoint.
    pub(super) keys: BTreeMap<KeyName, Allowance>,
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

    /// Returns the budget of a key in the next checkpoint. That of an idle key `fades`.
    pub(crate) fn expected(&self, resource: &Resource, name: &KeyName, fades: bool) -> Credit {
        let one = resource.credit(name.limit, Amount::ONE);
        let Some(allowance) = self.keys.get(name) else { return Credit::ZERO };
        // A crash loses unused places for long, so their budget is no more than was needed.
        let expected = match resource[name.limit].counts_calls_in_flight() {
            true => allowance.needed(),
            false => allowance.expected(true),
        };
        expected.max(allowance.faded(one, fades))
    }
}

pub(crate) fn long_charges<'a>(resource: &'a Resource, bill: &'a Bill) -> impl Iterator<Item = &'a KeyCharge> {
    bill.keyed().filter(|charge| resource[charge.limit].lists_keys())
}

/// A budget runs low when less than one part in this many is left.
const LOW_PART: u64 = 8;

/// The amount of one bucket that may be granted under one checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    all: Credit,
    left: Credit,
    /// The least that was ever left. What is given back serves the next call, so calls in flight
    /// take no more budget than they have grown by.
    least: Credit,
}

impl Allowance {
    pub(crate) fn new(all: Credit) -> Self {
        assert!(all >= Credit::ZERO, "a budget takes nothing back");
        Allowance { all, left: all, least: all }
    }

    pub(crate) fn covers(self, cost: Credit) -> bool {
        self.left >= cost
    }

    pub(crate) fn charge(&mut self, cost: Credit) {
        assert!(cost >= Credit::ZERO, "a call gives nothing");
        self.left -= cost;
        self.least = self.least.min(self.left);
    }

    pub(crate) fn give_back(&mut self, cost: Credit) {
        assert!(cost >= Credit::ZERO, "a call that returns takes nothing");
        self.left += cost;
    }

    /// Returns the expected demand under the next checkpoint: a quarter more than was needed under
    /// this one. If the next one comes `early` and more than half of the budget was needed, it is
    /// twice the larger of budget and need.
    pub(crate) fn expected(self, early: bool) -> Credit {
        let needed = self.needed();
        if early && needed > self.all.divided_by(2) {
            let most = self.all.max(needed);
            return most + most;
        }
        needed + needed.divided_by(4)
    }

    fn needed(self) -> Credit {
        self.all - self.least
    }

    /// Returns the former budget or, if it `fades`, half of it; zero below one `token`.
    fn faded(self, token: Credit, fades: bool) -> Credit {
        let faded = if fades { self.all.divided_by(2) } else { self.all };
        if faded < token { Credit::ZERO } else { faded }
    }

    /// Whether the rest may not suffice for another call of the `largest` size.
    pub(crate) fn runs_low(self, largest: Credit) -> bool {
        self.left < self.all.divided_by(LOW_PART).max(largest)
    }
}

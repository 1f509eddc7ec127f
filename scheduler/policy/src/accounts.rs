//! A pool of accounts: the limits that each of them has, and what a call takes on each.
//!
//! A limit that each account has becomes one limit for each: `requests` of `team-a` is
//! `requests-of-team-a`, for calls whose label `account` is `team-a`. A request that names no
//! account has an [`Alternative`] for each account that may make its call.

use crate::bill::{Alternative, Bill};
use crate::ids::{AccountId, ClassId, LimitId};
use crate::refusal::Refusal;
use crate::resource::Resource;
use crate::spec::{Discover, LimitSpec, Pattern, ResourceSpec, SpecError, SpecField, Weight};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::labels::{ACCOUNT, Labels};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use std::sync::Arc;

/// The most accounts of a resource: a waiting request has a bill for each.
pub const MAX_ACCOUNTS: usize = 16;

/// An account of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountSpec {
    /// Its name, unique in the resource.
    pub name: Name,
    /// How much it is preferred among accounts that can serve a call at once: twice the weight
    /// counts like twice the stock.
    pub weight: Weight,
    /// The classes whose calls it serves; empty for all.
    pub classes: Vec<Name>,
}

impl AccountSpec {
    /// Creates an account for all classes, with a weight of one.
    #[must_use]
    pub fn new(name: Name) -> Self {
        AccountSpec { name, weight: Weight::ONE, classes: Vec::new() }
    }
}

/// The name of the limit that `account` has of those called `limit`.
fn name_of(limit: &str, account: &str) -> String {
    format!("{limit}-of-{account}")
}

/// Returns the limits in force: in place of one that each account has, one for each account.
pub(crate) fn in_force(spec: &ResourceSpec) -> impl Iterator<Item = LimitSpec> {
    spec.limits.iter().flat_map(|limit| match limit.per_account {
        true => spec.accounts.iter().map(|account| of_account(limit, &account.name)).collect(),
        false => vec![limit.clone()],
    })
}

fn of_account(limit: &LimitSpec, account: &Name) -> LimitSpec {
    let mut own = limit.clone();
    own.name = Name::new(&name_of(&limit.name, account)).expect("checked with the resource");
    own.per_account = false;
    own.applies.matching.insert(ACCOUNT.to_owned(), Pattern::Exact(account.to_string()));
    own
}

/// Returns the faults of the accounts, and of the limits that each account has.
pub(crate) fn faults(spec: &ResourceSpec) -> Vec<SpecError> {
    let of_all = match (spec.accounts.len(), spec.discover) {
        (0, _) | (..=MAX_ACCOUNTS, Discover::Nothing) => None,
        (..=MAX_ACCOUNTS, _) => Some("`discover` finds the limits of one account; leave it out".to_owned()),
        (count, _) => Some(format!("a resource has at most {MAX_ACCOUNTS} accounts, not {count}")),
    };
    let of_each = (0..spec.accounts.len()).filter_map(|index| account_fault(spec, index));
    let of_accounts = of_all.into_iter().chain(of_each);
    let of_accounts = of_accounts.map(|reason| SpecError { field: SpecField::Resource("accounts"), reason });
    let of_limits = spec.limits.iter().enumerate().filter_map(|(index, limit)| {
        Some(SpecError { field: SpecField::Limit(index, "per"), reason: limit_fault(spec, limit)? })
    });
    of_accounts.chain(of_limits).collect()
}

fn account_fault(spec: &ResourceSpec, index: usize) -> Option<String> {
    let AccountSpec { name, classes, .. } = &spec.accounts[index];
    let known = spec.classes_or_default();
    let unknown = classes.iter().find(|class| known.iter().all(|known| known.name != **class));
    let is_second = spec.accounts[..index].iter().any(|other| other.name == *name);
    match unknown {
        Some(class) => Some(format!("account `{name}`: there is no class `{class}`")),
        None => is_second.then(|| format!("there are two accounts `{name}`")),
    }
}

fn limit_fault(spec: &ResourceSpec, limit: &LimitSpec) -> Option<String> {
    if !limit.per_account {
        return None;
    }
    let names = spec.accounts.iter().map(|account| name_of(&limit.name, &account.name));
    let too_long = { names }.find(|name| Name::new(name).is_err());
    match (spec.accounts.is_empty(), limit.applies.is_keyed(), too_long) {
        (true, ..) => Some("`per = \"account\"` needs the `accounts` of the resource".to_owned()),
        (_, true, _) => Some(
            "a limit that each account has takes no `key`; write one limit for each value, with `match`".to_owned(),
        ),
        (.., Some(name)) => Some(format!("the limits of the accounts would be called `{name}`, which is too long")),
        (.., None) => None,
    }
}

impl Resource {
    /// Returns the limit that is called `name` in a response to a call with this bill: of a limit
    /// that each account has, the one of the call's account.
    #[must_use]
    pub fn limit_called(&self, name: &str, bill: &Bill) -> Option<LimitId> {
        let own = || self.limit(&name_of(name, self.account_of(bill)?));
        self.limit(name).or_else(own)
    }

    /// Returns the account that makes the call of a bill.
    #[must_use]
    pub fn account_of(&self, bill: &Bill) -> Option<&Name> {
        bill.account.map(|account| &self.spec().accounts[account.index()].name)
    }

    /// Returns the account whose limits a bill charges.
    #[must_use]
    pub fn account_charged(&self, bill: &Bill) -> Option<AccountId> {
        let pattern = |limit: LimitId| self[limit].spec().applies.matching.get(ACCOUNT);
        let charged: Vec<&Pattern> = bill.charged().filter_map(pattern).collect();
        let is_charged = |account: &AccountSpec| charged.contains(&&Pattern::Exact(account.name.to_string()));
        let index = self.spec().accounts.iter().position(is_charged)?;
        u8::try_from(index).ok().map(AccountId)
    }

    /// Returns the limits of an account alone; `None` if it has none.
    #[must_use]
    pub fn limits_of_account(&self, account: &str) -> Option<Vec<LimitId>> {
        let is_own = |pattern: &Pattern| *pattern == Pattern::Exact(account.to_owned());
        let own =
            self.limits_by_id().filter(|(_, limit)| limit.spec().applies.matching.get(ACCOUNT).is_some_and(is_own));
        Some(own.map(|(id, _)| id).collect::<Vec<_>>()).filter(|own| !own.is_empty())
    }

    /// Computes the bill of a call of `class`. Unless its labels name an account, it has an
    /// alternative for each account that serves the class and is none of `not`.
    ///
    /// # Errors
    /// Those of [`Resource::bill`], of the last account that may serve the class; and
    /// [`Refusal::NoAccount`] if there is none.
    pub fn bill_in_pool<'a>(
        &self,
        labels: &Labels<'_>,
        cost: impl Iterator<Item = (&'a str, Amount)> + Clone,
        class: ClassId,
        not: &[Name],
    ) -> Result<Bill, Refusal> {
        if self.spec().accounts.is_empty() {
            return if not.is_empty() { self.bill(labels, cost) } else { Err(self.no_account()) };
        }
        let class = &self.classes()[class.index()].name;
        let named = labels.get(ACCOUNT);
        let serves = |account: &AccountSpec| {
            named.is_none_or(|named| *named == *account.name)
                && !not.contains(&account.name)
                && (account.classes.is_empty() || account.classes.contains(class))
        };
        let (mut alternatives, mut refusal) = (Vec::new(), self.no_account());
        for (id, account) in (0..).map(AccountId).zip(&self.spec().accounts).filter(|(_, account)| serves(account)) {
            match self.bill(&labels.clone().with(ACCOUNT, &*account.name), cost.clone()) {
                Ok(bill) => alternatives.push(Arc::new(bill.of_account(id))),
                Err(error) => refusal = error,
            }
        }
        if let [only] = &*alternatives {
            return Ok((**only).clone());
        }
        let speeds: Vec<f64> = alternatives.iter().map(|bill| self.speed(bill)).collect();
        let sum: f64 = speeds.iter().sum();
        let part = |speed: f64| ((speed / sum) * 1e6).round().max(1.0) as u32;
        let alternatives = alternatives.into_iter().zip(speeds);
        let alternative = |(bill, speed)| Alternative { bill, wait: Span::ZERO, ppm: part(speed) };
        let alternatives: Arc<[Alternative]> = alternatives.map(alternative).collect();
        if alternatives.is_empty() { Err(refusal) } else { Ok(Bill::with_alternatives(alternatives)) }
    }

    /// Returns how many such calls a second the slowest limit that not all calls share allows.
    fn speed(&self, bill: &Bill) -> f64 {
        let own = bill.shared().filter(|(id, _)| self[*id].spec().applies.matching.contains_key(ACCOUNT));
        let speed = |(id, amount): (LimitId, Amount)| {
            let LimitSpec { capacity, period, .. } = self[id].spec();
            capacity.units() / period.secs() / amount.units()
        };
        own.map(speed).fold(1e9, f64::min)
    }

    fn no_account(&self) -> Refusal {
        Refusal::NoAccount { known: self.spec().accounts.iter().map(|account| account.name.clone()).collect() }
    }
}

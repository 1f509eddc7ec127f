//! The buckets that calls share.

use super::pool::Pool;
use crate::outcome::Request;
use crate::workers::cost::amount_of;
use crate::world::World;
use rampmeter_policy::spec::{AccountSpec, Applies, LimitSpec, Pattern, ResourceSpec};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::labels::{ACCOUNT, Labels};
use rampmeter_protocol::name::Name;
use std::collections::BTreeMap;

/// The buckets of all judged limits. Shadow limits, which delay no call, and limits with regular expressions
/// or a group, unless they are limits of accounts, are not judged: the judge does not understand them.
pub(super) struct Buckets<'a> {
    /// In place of a limit that each account has, one for each.
    pub(super) limits: Vec<LimitSpec>,
    pub(super) pool: Pool<'a>,
    /// By worker, account and limit.
    numbers: Vec<Vec<Vec<Option<usize>>>>,
}

/// A worker, and the account that makes its call, if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) worker: usize,
    pub(super) account: Option<usize>,
}

impl<'a> Buckets<'a> {
    pub(super) fn of(world: &'a World) -> Self {
        let limits = limits_by_account(&world.resource);
        let mut known = BTreeMap::new();
        let mut numbers_of = |labels: &Labels<'_>| {
            let mut number = |(index, limit): (usize, &LimitSpec)| {
                let key = key(&limit.applies, labels).filter(|_| !limit.shadow)?;
                let is_replaced = limits[..index].iter().any(|other| {
                    other.applies.group.is_some()
                        && other.applies.group == limit.applies.group
                        && self::key(&other.applies, labels).is_some()
                });
                let next = known.len();
                (!is_replaced).then(|| *known.entry(key).or_insert(next))
            };
            limits.iter().enumerate().map(&mut number).collect::<Vec<_>>()
        };
        let accounts = &world.resource.accounts;
        let of_worker = |worker: usize| {
            let labels = world.labels_of(worker);
            let callers = (0..accounts.len()).map(Some).chain(accounts.is_empty().then_some(None));
            callers.map(|account| numbers_of(&world.labels_at(&labels, account))).collect()
        };
        let numbers = (0..world.workers()).map(of_worker).collect();
        Buckets { limits, pool: Pool::of(world), numbers }
    }

    /// Returns the bucket that a limit charges for a call, and the amount, if it applies.
    pub(super) fn charge(&self, limit: usize, by: Caller, cost: &Cost<'_>) -> Option<(usize, Amount)> {
        let bucket = self.numbers[by.worker][by.account.unwrap_or(0)][limit]?;
        let amount = amount_of(cost, &self.limits[limit].unit);
        (amount > Amount::ZERO).then_some((bucket, amount))
    }

    /// Returns the charge of a request if this account makes its call.
    pub(super) fn charge_at(&self, account: Option<usize>, limit: usize, request: &Request) -> Option<(usize, Amount)> {
        self.charge(limit, Caller { worker: request.worker, account }, &request.cost)
    }

    /// Returns whether the call of a request takes some of the limits that an account has for itself.
    pub(super) fn takes_of_account(&self, account: usize, request: &Request) -> bool {
        let is_own = |limit: &usize| self.limits[*limit].applies.matching.contains_key(ACCOUNT);
        (0..self.limits.len()).filter(is_own).any(|limit| self.charge_at(Some(account), limit, request).is_some())
    }

    /// Returns the limits that a call of the first account is charged to.
    pub(super) fn charged(&self, worker: usize, cost: &Cost<'_>) -> Vec<usize> {
        let by = Caller { worker, account: None };
        (0..self.limits.len()).filter(|limit| self.charge(*limit, by, cost).is_some()).collect()
    }

    /// Returns whether all calls of an account need this limit, which the other accounts have too.
    pub(super) fn is_for_all(&self, limit: usize) -> bool {
        let Applies { matching, key, group } = &self.limits[limit].applies;
        key.is_empty() && group.is_none() && matching.keys().all(|label| label == ACCOUNT)
    }
}

fn limits_by_account(resource: &ResourceSpec) -> Vec<LimitSpec> {
    let of = |limit: &LimitSpec, account: &AccountSpec| {
        let mut own = limit.clone();
        own.name = Name::new(&format!("{}-of-{}", limit.name, account.name)).expect("checked with the world");
        own.applies.matching.insert(ACCOUNT.to_owned(), Pattern::Exact(account.name.to_string()));
        own
    };
    let of_each = |limit: &LimitSpec| match limit.per_account {
        true => resource.accounts.iter().map(|account| of(limit, account)).collect(),
        false => vec![limit.clone()],
    };
    resource.limits.iter().flat_map(of_each).collect()
}

/// Returns the values that select a bucket; `None` if the limit does not match the call.
fn key(applies: &Applies, labels: &Labels<'_>) -> Option<Vec<String>> {
    let holds = |(label, pattern): (&String, &Pattern)| labels.get(label).is_some_and(|value| holds(pattern, value));
    let is_understood = applies.group.is_none() || applies.matching.contains_key(ACCOUNT);
    if !is_understood || !applies.matching.iter().all(holds) {
        return None;
    }
    applies.key.iter().map(|label| labels.get(label).map(str::to_owned)).collect()
}

fn holds(pattern: &Pattern, value: &str) -> bool {
    match pattern {
        Pattern::Exact(exact) => exact == value,
        Pattern::OneOf(values) => values.contains(value),
        Pattern::Prefix(prefix) => value.starts_with(prefix.as_str()),
        Pattern::Regex(_) => false,
    }
}

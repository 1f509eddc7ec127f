//! The limits in force of a pool of accounts, and the faults of its specification.
//!
//! A limit of each account becomes one per account: `requests-of-team-a` is for calls whose `account` is `team-a`.

use crate::spec::{AccountSpec, Discover, LimitSpec, MAX_ACCOUNTS, Pattern, ResourceSpec, SpecError, SpecField};
use rampmeter_protocol::labels::ACCOUNT;
use rampmeter_protocol::name::Name;

/// The name of the limit that `account` has of those called `limit`.
pub(crate) fn name_of(limit: &str, account: &str) -> String {
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
    if !spec.accounts.is_empty() && limit.applies.key.iter().any(|label| label == ACCOUNT) {
        return Some("accounts are no key: write `per = \"account\"`".to_owned());
    }
    if !limit.per_account {
        return None;
    }
    let names = spec.accounts.iter().map(|account| name_of(&limit.name, &account.name));
    let too_long = { names }.find(|name| Name::new(name).is_err());
    match (spec.accounts.is_empty(), too_long) {
        (true, _) => Some("`per = \"account\"` needs the `accounts` of the resource".to_owned()),
        (false, Some(name)) => Some(format!("the limits of the accounts would be called `{name}`, which is too long")),
        (false, None) => None,
    }
}

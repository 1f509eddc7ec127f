//! The upstream: the same limits, enforced by others.

use crate::world::WorldError;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::spec::{LimitSpec, ResourceSpec};
use rampmeter_upstream::{Account, Cost, Policy, Rejection, Unit};

/// An account whose policies are full, and are just the resource's limits.
pub(crate) fn account(resource: &ResourceSpec) -> Result<Account, WorldError> {
    resource.limits.iter().map(policy).collect::<Result<_, _>>().map(Account::new)
}

/// Whether the call that reaches the upstream at `now` is served; if not, what its `Retry-After` says.
pub(crate) fn admit(account: &mut Account, now: Time, cost: &Cost) -> Result<(), Span> {
    account.admit(now.since(Time::ORIGIN).duration(), cost).map_err(|rejection| match rejection {
        Rejection::RetryAfter(wait) => wait.into(),
        Rejection::TooManyInFlight | Rejection::Never => Span::from_secs(60),
    })
}

pub(crate) fn cost(amounts: &[(String, Amount)]) -> Result<Cost, WorldError> {
    amounts.iter().try_fold(Cost::new(), |cost, (name, amount)| Ok(cost.with(unit(name)?, translated(*amount))))
}

fn policy(limit: &LimitSpec) -> Result<Policy, WorldError> {
    let policy = Policy::new(unit(&limit.unit)?, translated(limit.capacity), limit.period.duration());
    policy.map_err(|error| WorldError::Upstream(error.to_string()))
}

fn unit(name: &str) -> Result<Unit, WorldError> {
    name.parse().map_err(|error| WorldError::Upstream(format!("{name}: {error}")))
}

fn translated(amount: Amount) -> rampmeter_upstream::Amount {
    rampmeter_upstream::Amount::from_micros(amount.micros())
}

//! The upstream: limits enforced by others, perhaps not just as they are configured.

use crate::cost::amount_of;
use crate::outcome::Levels;
use crate::world::WorldError;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::{Cost, REQUESTS};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::spec::{LimitSpec, ResourceSpec};
use rampmeter_upstream::{Account, Policy, Rejection, RetryAfter, Unit};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// What an upstream really does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// Its policies; just the resource's limits, full at the beginning, where there are none.
    pub policies: Vec<Policy>,
    /// How many calls it serves at the same time; any number where there is none.
    pub concurrency: Option<NonZeroUsize>,
    /// How its 429s state the wait.
    pub retry_after: RetryAfter,
}

/// One account, and what its 429s say.
pub(crate) struct Upstream {
    account: Account,
    retry_after: RetryAfter,
}

impl Upstream {
    pub(crate) fn new(behaviour: &Behaviour, resource: &ResourceSpec) -> Result<Self, WorldError> {
        let policies: Vec<Policy> = match &behaviour.policies[..] {
            [] => resource.limits.iter().map(policy).collect::<Result<_, _>>()?,
            policies => policies.to_vec(),
        };
        policies.iter().try_for_each(|policy| check_unit(policy, resource))?;
        let account = Account::new(policies);
        let account = match behaviour.concurrency {
            Some(calls) => account.with_concurrency(calls),
            None => account,
        };
        Ok(Upstream { account, retry_after: behaviour.retry_after })
    }

    /// Whether the call that arrives at `now` is served; if not, what its `Retry-After` says.
    pub(crate) fn admit(&mut self, now: Time, charge: &rampmeter_upstream::Cost) -> Result<(), Option<Span>> {
        self.account.admit(since_origin(now), charge).map_err(|rejection| self.stated_wait(rejection))
    }

    /// Whether a call of this cost can ever be served.
    pub(crate) fn could_serve(&self, charge: &rampmeter_upstream::Cost) -> bool {
        self.account.clone().admit(std::time::Duration::ZERO, charge) != Err(Rejection::Never)
    }

    /// A call that was served is over.
    pub(crate) fn finish(&mut self) {
        self.account.finish();
    }

    /// What could be spent of each unit at `now`: where several policies count one, the least.
    pub(crate) fn levels(&self, now: Time) -> Levels {
        let mut micros = BTreeMap::new();
        for stats in self.account.policies(since_origin(now)) {
            let least = micros.entry(stats.policy.unit().to_string()).or_insert(u64::MAX);
            *least = stats.level.micros().min(*least);
        }
        Levels { at: now, micros }
    }

    fn stated_wait(&self, rejection: Rejection) -> Option<Span> {
        let number = u64::try_from(self.retry_after.of(rejection)?).ok()?;
        match self.retry_after {
            RetryAfter::Milliseconds => Some(Span::from_millis(number)),
            RetryAfter::Seconds => Some(Span::from_secs(number)),
            RetryAfter::Missing => None,
        }
    }
}

/// A cost as the upstream understands it. Units that it can't name it does not count either.
pub(crate) fn charge(cost: &Cost<'_>) -> rampmeter_upstream::Cost {
    let units = cost.iter().map(|(unit, _)| unit).chain([REQUESTS]);
    let known = units.filter_map(|name| Some((name.parse::<Unit>().ok()?, translated(amount_of(cost, name)))));
    known.fold(rampmeter_upstream::Cost::new(), |charge, (unit, amount)| charge.with(unit, amount))
}

fn check_unit(policy: &Policy, resource: &ResourceSpec) -> Result<(), WorldError> {
    let (unit, mut limits) = (policy.unit().as_str(), resource.limits.iter());
    if limits.any(|limit| &*limit.unit == unit) {
        return Ok(());
    }
    Err(WorldError::Upstream(format!("no limit of the resource counts `{unit}`")))
}

fn policy(limit: &LimitSpec) -> Result<Policy, WorldError> {
    let unit = limit.unit.parse().map_err(|error| WorldError::Upstream(format!("{}: {error}", limit.unit)))?;
    let policy = Policy::new(unit, translated(limit.capacity), limit.period.duration());
    policy.map_err(|error| WorldError::Upstream(error.to_string()))
}

fn translated(amount: Amount) -> rampmeter_upstream::Amount {
    rampmeter_upstream::Amount::from_micros(amount.micros())
}

fn since_origin(now: Time) -> std::time::Duration {
    now.since(Time::ORIGIN).duration()
}

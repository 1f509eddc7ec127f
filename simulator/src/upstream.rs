//! The simulated upstream. Its limits may differ from those that are configured.

use crate::accounts::{Accounts, ByKey};
use crate::cost::amount_of;
use crate::outcome::Levels;
use crate::world_error::WorldError;
use rampmeter_dialects::{Reader, RetryAfterUnit};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::{Cost, REQUESTS};
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::policy::spec::{Algorithm, Alignment, Applies, LimitSpec, ResourceSpec};
use rampmeter_upstream::{Dialect, Policy, PolicyError, Rejection, RetryAfter, Unit};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// What an upstream really enforces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// Its policies; by default the resource's limits, full at the beginning. The default leaves
    /// out limits without a model here: calls in flight, and windows that begin with their first
    /// call, a day or a month. It also leaves out limits with a `match` or a group.
    pub policies: Vec<Policy>,
    /// How many calls it serves at the same time; `None` means any number.
    pub concurrency: Option<NonZeroUsize>,
    /// The dialect of its headers.
    pub dialect: Dialect,
    /// How its 429s state the wait.
    pub retry_after: RetryAfter,
    /// Later policies and when they begin; the change is not announced.
    pub changes: Vec<(Time, Vec<Policy>)>,
}

impl Behaviour {
    /// The reader for its answers.
    #[must_use]
    pub fn reader(&self) -> Reader {
        let dialect = match self.dialect {
            Dialect::SentinelHub => rampmeter_dialects::Dialect::SentinelHub,
            Dialect::Ietf => rampmeter_dialects::Dialect::Ietf,
            Dialect::Openai => rampmeter_dialects::Dialect::Openai,
        };
        let unit = match self.retry_after {
            RetryAfter::Milliseconds => Some(RetryAfterUnit::Milliseconds),
            RetryAfter::Seconds => Some(RetryAfterUnit::Seconds),
            RetryAfter::Missing => None,
        };
        Reader::of(dialect).counting_in(unit)
    }
}

/// The answer to a call.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// `Ok` if the call was served; otherwise the wait of `Retry-After`.
    pub(crate) verdict: Result<(), Option<Span>>,
    /// Names and values.
    pub(crate) headers: Vec<(String, String)>,
}

/// One account and the form of its answers.
pub(crate) struct Upstream {
    accounts: Accounts,
    dialect: Dialect,
    retry_after: RetryAfter,
}

impl Upstream {
    pub(crate) fn new(behaviour: &Behaviour, resource: &ResourceSpec) -> Result<Self, WorldError> {
        let (policies, by_key) = match &behaviour.policies[..] {
            [] => (shared(resource)?, by_key(resource)?),
            policies => (policies.to_vec(), Vec::new()),
        };
        let changed = behaviour.changes.iter().flat_map(|(_, policies)| policies);
        policies.iter().chain(changed).try_for_each(|policy| check_unit(policy, resource))?;
        let accounts = Accounts::new(policies, behaviour.concurrency, by_key);
        let (dialect, retry_after) = (behaviour.dialect, behaviour.retry_after);
        Ok(Upstream { accounts, dialect, retry_after })
    }

    /// Replaces all policies from `now` on. Levels stay, as far as there is room.
    pub(crate) fn change(&mut self, now: Time, policies: &[Policy]) {
        self.accounts.shared.change(age(now), policies.to_vec());
    }

    /// The answer to a call with these labels that arrives at `now`.
    pub(crate) fn answer(&mut self, now: Time, labels: &Labels<'_>, charge: &rampmeter_upstream::Cost) -> Reply {
        let now = age(now);
        let admitted = self.accounts.admit(now, labels, charge);
        let took = admitted.is_ok().then_some(charge);
        let policies = if self.dialect.tells_levels() { self.accounts.shared.policies(now) } else { Vec::new() };
        let mut headers = self.dialect.headers(took, &policies);
        let wait = admitted.err().and_then(|rejection| self.retry_after.of(rejection));
        headers.extend(wait.map(|wait| ("retry-after".to_owned(), wait.to_string())));
        Reply { verdict: admitted.map_err(|rejection| self.stated_wait(rejection)), headers }
    }

    /// Whether the upstream could ever serve a call of this cost.
    pub(crate) fn could_serve(&self, charge: &rampmeter_upstream::Cost) -> bool {
        self.accounts.shared.clone().admit(std::time::Duration::ZERO, charge) != Err(Rejection::Never)
    }

    /// Counts a served call as finished.
    pub(crate) fn finish(&mut self) {
        self.accounts.shared.finish();
    }

    /// The levels of all units at `now`; if several policies count a unit, the lowest.
    pub(crate) fn levels(&self, now: Time) -> Levels {
        let mut micros = BTreeMap::new();
        for stats in self.accounts.shared.policies(age(now)) {
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

/// The account's origin is that of virtual time.
fn age(now: Time) -> std::time::Duration {
    now.since(Time::ORIGIN).duration()
}

/// A cost in the upstream's words. It leaves out units that the upstream cannot name, since it
/// cannot count them.
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

/// The policies of limits that match every call.
fn shared(resource: &ResourceSpec) -> Result<Vec<Policy>, WorldError> {
    let shared = resource.limits.iter().filter(|limit| limit.applies.is_everything());
    shared.filter_map(|limit| policy(limit).transpose()).collect()
}

/// The policies of limits with keys.
fn by_key(resource: &ResourceSpec) -> Result<Vec<ByKey>, WorldError> {
    let keyed = resource.limits.iter().filter(|limit| limit.applies.is_keyed() && is_unconditional(&limit.applies));
    let by_key = |limit: &LimitSpec| {
        let (labels, accounts) = (limit.applies.key.clone(), BTreeMap::new());
        Ok(policy(limit)?.map(|policy| ByKey { labels, policy, accounts }))
    };
    keyed.filter_map(|limit| by_key(limit).transpose()).collect()
}

/// Whether a limit matches every call that has the labels of its key.
fn is_unconditional(applies: &Applies) -> bool {
    applies.matching.is_empty() && applies.group.is_none()
}

/// The policy for a limit; `None` if the account has no such model.
fn policy(limit: &LimitSpec) -> Result<Option<Policy>, WorldError> {
    let fault = |error: PolicyError| WorldError::Upstream(error.to_string());
    let unit = limit.unit.parse().map_err(|error| WorldError::Upstream(format!("{}: {error}", limit.unit)))?;
    let period = if limit.algorithm == Algorithm::Quota(None) { Span::ZERO } else { limit.period };
    let policy = Policy::new(unit, translated(limit.capacity), period.duration()).map_err(fault)?;
    match &limit.algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Quota(None) => Ok(Some(policy)),
        Algorithm::FixedWindow(Alignment::Epoch) | Algorithm::Quota(Some(Alignment::Epoch)) => {
            policy.fixed_window().map(Some).map_err(fault)
        }
        Algorithm::SlidingWindow => policy.sliding_window().map(Some).map_err(fault),
        Algorithm::FixedWindow(Alignment::FirstUse | Alignment::Day(_) | Alignment::Month(_))
        | Algorithm::Quota(Some(Alignment::FirstUse | Alignment::Day(_) | Alignment::Month(_)))
        | Algorithm::Concurrency => Ok(None),
    }
}

fn translated(amount: Amount) -> rampmeter_upstream::Amount {
    rampmeter_upstream::Amount::from_micros(amount.micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::settle::{Headers, Response};
    use rampmeter_protocol::text::Text;
    use rampmeter_scheduler_core::adaptation::observation::{Observation, Scope, Verdict};

    /// The observations that the scheduler makes from the upstream's answers.
    fn understood(dialect: Dialect, retry_after: RetryAfter) -> [Observation; 2] {
        // The second call is rejected, and fills the bucket.
        let policies = vec!["requests=1/2s;leaky-bucket".parse().unwrap()];
        let behaviour = Behaviour { policies, dialect, retry_after, ..Behaviour::default() };
        let accounts = Accounts::new(behaviour.policies.clone(), None, Vec::new());
        let mut upstream = Upstream { accounts, dialect, retry_after };
        let (charge, reader) = (rampmeter_upstream::Cost::new(), behaviour.reader());
        [200, 429].map(|status| {
            let reply = upstream.answer(Time::ORIGIN, &Labels::new(), &charge);
            assert_eq!(reply.verdict.is_ok(), status == 200);
            let headers = reply.headers.into_iter().map(|(name, value)| (Text::from(name), Text::from(value)));
            let response = Response { status, headers: Headers::first_of(headers), quota_spent: false, code: None };
            let heard = reader.read(&response, 0);
            assert!(heard.unreadable.is_empty(), "{response:?}");
            heard.observation
        })
    }

    #[test]
    fn the_scheduler_understands_what_the_upstream_says() {
        let two_seconds = Some(Span::from_secs(2));
        #[rustfmt::skip]
        let table = [
            // dialect              Retry-After                 how long to be silent, and of what
            (Dialect::SentinelHub,  RetryAfter::Milliseconds,   two_seconds,    Scope::Unnamed),
            (Dialect::SentinelHub,  RetryAfter::Seconds,        two_seconds,    Scope::Unnamed),
            (Dialect::SentinelHub,  RetryAfter::Missing,        None,           Scope::Unnamed),
            (Dialect::Ietf,         RetryAfter::Milliseconds,   two_seconds,    Scope::Unit("requests".to_owned())),
            (Dialect::Ietf,         RetryAfter::Missing,        two_seconds,    Scope::Unit("requests".to_owned())),
            (Dialect::Openai,       RetryAfter::Seconds,        two_seconds,    Scope::Unit("requests".to_owned())),
            (Dialect::Openai,       RetryAfter::Missing,        None,           Scope::Unit("requests".to_owned())),
        ];
        for (dialect, form, retry_after, scope) in table {
            let [served, rejected] = understood(dialect, form);
            assert_eq!(served.verdict, Verdict::Passed);
            assert_eq!(
                rejected.verdict,
                Verdict::Limited { scope, retry_after, others: false },
                "{dialect:?} {form:?}"
            );
            let left: Vec<_> = served.readings.iter().map(|reading| reading.remaining).collect();
            assert_eq!(left, vec![Amount::ZERO; usize::from(dialect.tells_levels())], "{dialect:?}");
        }
    }
}

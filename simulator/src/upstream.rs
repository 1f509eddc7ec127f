//! The simulated upstream, whose limits may differ from the configured ones.

use crate::outcome::Levels;
use crate::workers::cost::amount_of;
use crate::world_error::WorldError;
use rampmeter_dialects::{Reader, RetryAfterUnit};
use rampmeter_policy::spec::{Algorithm, Alignment, Discover, LimitSpec, Pattern, ResourceSpec};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::{Cost, REQUESTS};
use rampmeter_protocol::labels::{ACCOUNT, Labels};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_upstream::{Api, Arrival, Dialect, Policy, PolicyError, Preset, Rejection, RetryAfter, Rule, Unit};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// What an upstream really enforces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// Its policies; by default the resource's limits, full at first, without those that have no
    /// model here: calls in flight by key or account, windows of a day or a month, and regular expressions.
    pub policies: Vec<Policy>,
    /// How many calls it serves at once; `None` for any number.
    pub concurrency: Option<NonZeroUsize>,
    /// The dialect of its headers.
    pub dialect: Dialect,
    /// How its 429s state the wait.
    pub retry_after: RetryAfter,
    /// A known upstream, in place of all of these except for limits that it lacks.
    pub preset: Option<Preset>,
    /// Later policies and their beginnings, which are not announced.
    pub changes: Vec<(Time, Vec<Policy>)>,
    /// When it serves an account no calls.
    pub outages: Vec<Outage>,
}

/// A time in which the upstream serves an account no calls, and counts none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The account.
    pub account: Name,
    /// When it begins.
    pub from: Time,
    /// When it ends.
    pub until: Time,
    /// Whether the credential is refused, with a 401, instead of too many calls, with a 429.
    pub is_revoked: bool,
}

impl Behaviour {
    /// Returns the reader for its responses.
    #[must_use]
    pub fn reader(&self) -> Reader {
        let (dialect, form) = match &self.preset {
            Some(preset) => (preset.dialect, preset.retry_after()),
            None => (self.dialect, self.retry_after),
        };
        let unit = match form {
            RetryAfter::Milliseconds => Some(RetryAfterUnit::Milliseconds),
            RetryAfter::Seconds => Some(RetryAfterUnit::Seconds),
            RetryAfter::Missing => None,
        };
        Reader::of(dialect.name().parse().expect("readers know every dialect")).counting_in(unit)
    }

    /// Returns the preset. One without limits gets the policies, by default those of `resource`.
    ///
    /// # Errors
    /// If the upstream has no model of a limit's capacity or period.
    pub fn preset(&self, resource: &ResourceSpec) -> Result<Preset, WorldError> {
        let mut preset = self.preset.clone().unwrap_or_else(|| {
            let mut plain = Preset::new(Vec::new()).with_retry_after(self.retry_after);
            plain.dialect = self.dialect;
            plain
        });
        if preset.rules.is_empty() {
            let most = self.concurrency.or(preset.concurrency);
            (preset.rules, preset.concurrency) = match &self.policies[..] {
                [] => (rules(resource)?, most.or(calls_in_flight(resource))),
                policies => (policies.iter().cloned().map(Rule::new).collect(), most),
            };
        }
        Ok(preset)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// `Ok` if the call was served, otherwise the wait of `Retry-After`.
    pub(crate) verdict: Result<(), Option<Span>>,
    pub(crate) status: u16,
    /// Names and values.
    pub(crate) headers: Vec<(String, String)>,
    /// The account whose credential the upstream does not accept.
    pub(crate) revoked: Option<Name>,
}

/// An upstream in virtual time, whose origin is the beginning of 1970.
pub(crate) struct Upstream {
    pub(crate) api: Api,
    outages: Vec<Outage>,
}

impl Upstream {
    pub(crate) fn new(behaviour: &Behaviour, resource: &ResourceSpec) -> Result<Self, WorldError> {
        let changed = behaviour.changes.iter().flat_map(|(_, policies)| policies);
        behaviour.policies.iter().chain(changed).try_for_each(|policy| check_unit(policy, resource))?;
        Ok(Upstream { api: Api::new(behaviour.preset(resource)?), outages: behaviour.outages.clone() })
    }

    /// Replaces all policies from `now` on. Levels are kept as far as they fit.
    pub(crate) fn change(&mut self, now: Time, policies: &[Policy]) {
        self.api.change(age(now), policies.to_vec());
    }

    pub(crate) fn answer(&mut self, now: Time, labels: &Labels<'_>, charge: &rampmeter_upstream::Cost) -> Reply {
        let account = labels.get(ACCOUNT);
        let is_out = |outage: &&Outage| account == Some(&*outage.account) && (outage.from..outage.until).contains(&now);
        if let Some(outage) = self.outages.iter().find(is_out) {
            return self.turn_away(now, outage);
        }
        let label = |name: &str| labels.get(name).map(str::to_owned);
        let reply = self.api.answer(age(now), &Arrival { cost: charge, label: &label });
        let wait = reply.stated_wait.map(|wait| Span::from_nanos(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)));
        let verdict = if reply.rejection.is_none() { Ok(()) } else { Err(wait) };
        Reply { verdict, status: reply.status, headers: reply.headers, revoked: None }
    }

    /// Answers a call of an account in an outage, whose end only a 429 states.
    fn turn_away(&self, now: Time, outage: &Outage) -> Reply {
        let revoked = outage.is_revoked.then(|| outage.account.clone());
        let status = if outage.is_revoked { 401 } else { 429 };
        let wait = outage.until.since(now);
        let stated = self.api.preset().retry_after().of(wait.duration()).filter(|_| !outage.is_revoked);
        let headers = stated.map(|number| ("retry-after".to_owned(), number.to_string())).into_iter().collect();
        Reply { verdict: Err(stated.map(|_| wait)), status, headers, revoked }
    }

    /// Returns whether the upstream could ever serve a call with these labels and this cost.
    pub(crate) fn could_serve(&self, labels: &Labels<'_>, charge: &rampmeter_upstream::Cost) -> bool {
        let label = |name: &str| labels.get(name).map(str::to_owned);
        let reply = self.api.clone().answer(age(Time::ORIGIN), &Arrival { cost: charge, label: &label });
        reply.rejection != Some(Rejection::Never)
    }

    /// Returns the levels of all units at `now`; the lowest if several policies count a unit.
    pub(crate) fn levels(&self, now: Time) -> Levels {
        let mut micros = BTreeMap::new();
        for stats in self.api.policies(age(now)) {
            let least = micros.entry(stats.policy.unit().to_string()).or_insert(u64::MAX);
            *least = stats.level.micros().min(*least);
        }
        Levels { at: now, micros }
    }
}

/// The upstream's origin is that of virtual time.
fn age(now: Time) -> std::time::Duration {
    now.since(Time::ORIGIN).duration()
}

/// Converts a cost, without units whose names the upstream does not accept and so cannot count.
pub(crate) fn charge(cost: &Cost<'_>) -> rampmeter_upstream::Cost {
    let units = cost.iter().map(|(unit, _)| unit).chain([REQUESTS]);
    let known = units.filter_map(|name| Some((name.parse::<Unit>().ok()?, translated(amount_of(cost, name)))));
    known.fold(rampmeter_upstream::Cost::new(), |charge, (unit, amount)| charge.with(unit, amount))
}

fn check_unit(policy: &Policy, resource: &ResourceSpec) -> Result<(), WorldError> {
    let (unit, mut limits) = (policy.unit().as_str(), resource.limits.iter());
    // If limits are discovered, the upstream may count units that no configured limit counts.
    if limits.any(|limit| &*limit.unit == unit) || resource.discover == Discover::All {
        return Ok(());
    }
    Err(WorldError::Upstream(format!("no limit of the resource counts `{unit}`")))
}

/// The rules for a resource's limits. A group's limit without conditions counts the rest.
fn rules(resource: &ResourceSpec) -> Result<Vec<Rule>, WorldError> {
    let found = resource.limits.iter().map(|limit| Ok((limit, rule(limit)?)));
    let found: Vec<(&LimitSpec, Option<Rule>)> = found.collect::<Result<_, WorldError>>()?;
    let has_conditions = |limit: &LimitSpec| !limit.applies.matching.is_empty();
    let of_group = |(limit, rule): &(&LimitSpec, Option<Rule>)| {
        let rule = rule.clone()?;
        if limit.applies.group.is_none() || has_conditions(limit) {
            return Some(rule);
        }
        let is_other = |other: &LimitSpec| other.applies.group == limit.applies.group && has_conditions(other);
        let others = found.iter().filter(|(other, _)| is_other(other));
        Some(rule.except(others.filter_map(|(_, rule)| rule.as_ref())))
    };
    Ok(found.iter().filter_map(of_group).collect())
}

fn calls_in_flight(resource: &ResourceSpec) -> Option<NonZeroUsize> {
    let is_cap = |limit: &&LimitSpec| limit.algorithm == Algorithm::Concurrency && limit.applies.is_everything();
    let caps = resource.limits.iter().filter(is_cap).filter(|limit| !limit.shadow && !limit.per_account);
    caps.filter_map(|limit| NonZeroUsize::new(limit.capacity.units() as usize)).min()
}

/// Returns the rule for a limit; `None` if the upstream has no such model.
fn rule(limit: &LimitSpec) -> Result<Option<Rule>, WorldError> {
    let Some(policy) = policy(limit)? else { return Ok(None) };
    let account = limit.per_account.then_some(ACCOUNT);
    let key: Vec<&str> = limit.applies.key.iter().map(String::as_str).chain(account).collect();
    let mut rule = Rule::new(policy).named(&limit.name).for_each(&key);
    for (label, pattern) in &limit.applies.matching {
        let Some(values) = values(pattern) else { return Ok(None) };
        rule = rule.only(label, &values.iter().map(String::as_str).collect::<Vec<_>>());
    }
    Ok(Some(rule).filter(|_| !limit.shadow))
}

/// Returns the values that a pattern matches, some of which are prefixes.
fn values(pattern: &Pattern) -> Option<Vec<String>> {
    match pattern {
        Pattern::Exact(value) => Some(vec![value.clone()]),
        Pattern::OneOf(values) => Some(values.iter().cloned().collect()),
        Pattern::Prefix(beginning) => Some(vec![format!("{beginning}*")]),
        Pattern::Regex(_) => None,
    }
}

/// Returns the policy for a limit; `None` if the upstream has no such model.
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
        Algorithm::FixedWindow(Alignment::FirstUse) | Algorithm::Quota(Some(Alignment::FirstUse)) => {
            policy.first_use_window().map(Some).map_err(fault)
        }
        Algorithm::SlidingWindow => policy.sliding_window().map(Some).map_err(fault),
        Algorithm::FixedWindow(Alignment::Day(_) | Alignment::Month(_))
        | Algorithm::Quota(Some(Alignment::Day(_) | Alignment::Month(_)))
        | Algorithm::Concurrency => Ok(None),
    }
}

fn translated(amount: Amount) -> rampmeter_upstream::Amount {
    rampmeter_upstream::Amount::from_micros(amount.micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::observation::{Observation, Scope, Verdict};
    use rampmeter_protocol::settle::{Headers, Response};
    use rampmeter_protocol::text::Text;

    /// The observations that the scheduler makes from the upstream's responses.
    fn understood(dialect: Dialect, retry_after: RetryAfter) -> [Observation; 2] {
        // The second call is rejected, and fills the bucket.
        let policies = vec!["requests=1/2s;leaky-bucket".parse().unwrap()];
        let behaviour = Behaviour { policies, dialect, retry_after, ..Behaviour::default() };
        let resource = ResourceSpec::new(Name::new("api").unwrap(), Vec::new());
        let api = Api::new(behaviour.preset(&resource).unwrap());
        let mut upstream = Upstream { api, outages: Vec::new() };
        let (charge, reader) = (rampmeter_upstream::Cost::new(), behaviour.reader());
        [200, 429].map(|status| {
            let reply = upstream.answer(Time::ORIGIN, &Labels::new(), &charge);
            assert_eq!(reply.verdict.is_ok(), status == 200);
            let headers = reply.headers.into_iter().map(|(name, value)| (Text::from(name), Text::from(value)));
            let response = Response { status, headers: Headers::first_of(headers), quota_spent: false, code: None };
            let read = reader.read(&response, 0);
            assert!(read.unreadable.is_empty(), "{response:?}");
            read.observation
        })
    }

    #[test]
    fn the_scheduler_understands_what_the_upstream_says() {
        let two_seconds = Some(Span::from_secs(2));
        #[rustfmt::skip]
        let table = [
            // dialect Retry-After the pause, and its scope
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
                Verdict::Limited { scope, retry_after, by_other_accounts: false },
                "{dialect:?} {form:?}"
            );
            let left: Vec<_> = served.readings.iter().map(|reading| reading.remaining).collect();
            let count = usize::from(dialect != Dialect::SentinelHub);
            assert_eq!(left, vec![Amount::ZERO; count], "{dialect:?}");
        }
    }
}

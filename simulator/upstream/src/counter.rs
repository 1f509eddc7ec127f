//! A limit with its meters, each of which starts with the first call of its key.

use crate::{Amount, Arrival, Policy, PolicyStats, Rejection, Rule, counting::meter::Meter};
use std::{collections::BTreeMap, time::Duration};

/// Most keys of a limit with their own meter: keys from the network must not fill the memory.
const MAX_KEYS: usize = 100_000;

/// The key of calls beyond that bound.
const OTHER_KEYS: &str = "(other)";

#[derive(Clone, Debug)]
pub(crate) struct Counter {
    rule: Rule,
    /// When fixed windows begin, before the origin of time.
    since_ns: u128,
    meters: BTreeMap<Vec<String>, Meter>,
    spent: Amount,
}

#[derive(Clone, Debug)]
pub(crate) struct LimitState<'a> {
    pub(crate) rule: &'a Rule,
    pub(crate) key: Vec<String>,
    pub(crate) level: Amount,
    pub(crate) full_in: Option<Duration>,
}

impl Counter {
    pub(crate) fn new(rule: Rule) -> Self {
        Self { rule, since_ns: 0, meters: BTreeMap::new(), spent: Amount::ZERO }
    }

    pub(crate) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Sets the origin of fixed windows before that of time. Only before the first call.
    pub(crate) fn begin(&mut self, since_ns: u128) {
        self.since_ns = since_ns;
    }

    /// Notes an arriving call, and returns the key that it counts for.
    pub(crate) fn arrive(&mut self, now_ns: u64, arrival: &Arrival<'_>) -> Option<Vec<String>> {
        let key = self.known(self.rule.key_of(arrival)?);
        if !self.meters.contains_key(&key) {
            self.meters.insert(key.clone(), self.fresh());
        }
        self.meter(&key).advance(now_ns);
        Some(key)
    }

    pub(crate) fn refusal(&self, key: &[String], arrival: &Arrival<'_>) -> Option<Rejection> {
        self.meters[key].refusal(self.share(arrival))
    }

    pub(crate) fn charge(&mut self, key: &[String], arrival: &Arrival<'_>) {
        let share = self.share(arrival);
        self.spent = self.spent.saturating_add(share);
        self.meter(key).charge(share);
    }

    pub(crate) fn reject(&mut self, key: &[String], arrival: &Arrival<'_>) {
        let share = self.share(arrival);
        self.meter(key).reject(share);
    }

    pub(crate) fn changed(mut self, now_ns: u64, policy: Policy) -> Self {
        self.rule.policy = policy;
        let mut fresh = self.fresh();
        fresh.advance(now_ns);
        let succeeding = |before: &Meter| {
            let mut meter = fresh.clone();
            meter.succeed(before, now_ns);
            meter
        };
        self.meters.values_mut().for_each(|meter| *meter = succeeding(meter));
        self
    }

    /// Returns what is left for a call; `None` if the limit does not count it.
    pub(crate) fn standing(&self, now_ns: u64, arrival: &Arrival<'_>) -> Option<LimitState<'_>> {
        let key = self.known(self.rule.key_of(arrival)?);
        let meter = self.meters.get(&key).cloned().unwrap_or_else(|| self.fresh());
        let full_in = meter.full_in_ns(now_ns).and_then(|ns| u64::try_from(ns).ok()).map(Duration::from_nanos);
        Some(LimitState { rule: &self.rule, key, level: meter.spendable(now_ns), full_in })
    }

    /// Returns what all keys have spent together, and what the scarcest key could spend.
    pub(crate) fn stats(&self, now_ns: u64) -> PolicyStats {
        let least = self.meters.values().map(|meter| meter.spendable(now_ns)).min();
        let level = least.unwrap_or_else(|| self.fresh().spendable(now_ns));
        PolicyStats { policy: self.rule.policy.clone(), spent: self.spent, level }
    }

    fn share(&self, arrival: &Arrival<'_>) -> Amount {
        arrival.cost.of(self.rule.policy.unit())
    }

    fn fresh(&self) -> Meter {
        Meter::new(&self.rule.policy, self.since_ns)
    }

    fn known(&self, key: Vec<String>) -> Vec<String> {
        let room = self.meters.len() < MAX_KEYS || self.meters.contains_key(&key);
        if room { key } else { vec![OTHER_KEYS.to_owned()] }
    }

    fn meter(&mut self, key: &[String]) -> &mut Meter {
        self.meters.get_mut(key).expect("a call arrives before it counts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cost;

    #[test]
    fn keys_beyond_the_bound_share_one_meter() {
        let mut counter = Counter::new(Rule::new("requests=1/PT0S".parse().unwrap()).for_each(&["client"]));
        let cost = Cost::new();
        let mut admits = |client: usize| {
            let label = |_: &str| Some(client.to_string());
            let arrival = Arrival { cost: &cost, label: &label };
            let key = counter.arrive(0, &arrival).unwrap();
            let admits = counter.refusal(&key, &arrival).is_none();
            if admits {
                counter.charge(&key, &arrival);
            }
            (admits, counter.meters.len())
        };
        assert!((0..MAX_KEYS).all(|client| admits(client).0));
        assert_eq!(admits(MAX_KEYS), (true, MAX_KEYS + 1));
        assert_eq!(admits(MAX_KEYS + 1), (false, MAX_KEYS + 1));
        assert_eq!(admits(0), (false, MAX_KEYS + 1));
    }
}

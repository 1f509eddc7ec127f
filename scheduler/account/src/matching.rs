//! Matches a provider's limits with those of a resource, by unit and period.

use super::{Contract, ProvidedLevel, ProvidedLimit};
use rampmeter_policy::Limit;
use rampmeter_policy::spec::{Algorithm, LimitSpec, MAX_PERIOD};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use std::fmt;

/// Periods with a name. A month of Sentinel Hub has 31 days.
const NAMED: [(Span, &str); 5] = [
    (Span::from_secs(1), "second"),
    (Span::from_secs(60), "minute"),
    (Span::from_secs(3600), "hour"),
    (Span::from_secs(86_400), "day"),
    (Span::from_secs(744 * 3600), "month"),
];

/// A limit for which the provider states another capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLimit {
    /// Its name in the resource.
    pub name: Name,
    /// The capacity in force.
    pub known: Amount,
    /// The capacity that the provider states.
    pub capacity: Amount,
    /// The time in which an empty bucket fills, if it does; equal on both sides.
    pub period: Option<Span>,
}

impl fmt::Display for NewLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {} {}, not {}", self.name, self.capacity, In(self.period), self.known)
    }
}

/// The level that a provider states for a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLevel {
    /// The limit's name in the resource.
    pub name: Name,
    /// The level of the provider's bucket.
    pub remaining: Amount,
}

/// Returns the limits for which a contract states another capacity.
#[must_use]
pub fn new_limits(limits: &[Limit], contract: &Contract) -> Vec<NewLimit> {
    let changed = limits.iter().map(Limit::spec).filter_map(|limit| {
        let provided = contract.limits.iter().find(|provided| is_same_limit(provided, limit))?;
        (provided.capacity != limit.capacity).then(|| NewLimit {
            name: limit.name.clone(),
            known: limit.capacity,
            capacity: provided.capacity,
            period: refill_of(limit),
        })
    });
    changed.collect()
}

/// Returns the limits of a contract that `limits` does not have.
#[must_use]
pub fn unmatched<'a>(limits: &[Limit], contract: &'a Contract) -> Vec<&'a ProvidedLimit> {
    let is_matched = |provided: &ProvidedLimit| limits.iter().any(|limit| is_same_limit(provided, limit.spec()));
    contract.limits.iter().filter(|provided| !is_matched(provided)).collect()
}

/// Returns the levels that a provider states for some of `limits`.
#[must_use]
pub fn new_levels(limits: &[Limit], levels: &[ProvidedLevel]) -> Vec<NewLevel> {
    let levels = limits.iter().map(Limit::spec).filter_map(|limit| {
        let is_same = |level: &&ProvidedLevel| level.unit == limit.unit && level.period == refill_of(limit);
        let level = levels.iter().find(is_same).filter(|_| limit.applies.is_everything())?;
        Some(NewLevel { name: limit.name.clone(), remaining: level.remaining })
    });
    levels.collect()
}

fn is_same_limit(provided: &ProvidedLimit, limit: &LimitSpec) -> bool {
    limit.applies.is_everything() && provided.unit == limit.unit && provided.period == refill_of(limit)
}

/// Returns the time in which an empty bucket fills; `None` for a quota that is never reset.
#[must_use]
pub fn refill_of(limit: &LimitSpec) -> Option<Span> {
    (limit.algorithm != Algorithm::Quota(None)).then_some(limit.period)
}

/// Derives limits for a resource without configured ones, with names such as `requests-per-minute`.
#[must_use]
pub fn limits_of(contract: &Contract) -> Vec<LimitSpec> {
    contract.limits.iter().map(spec).collect()
}

fn spec(provided: &ProvidedLimit) -> LimitSpec {
    let ProvidedLimit { unit, capacity, period } = provided.clone();
    let limit = LimitSpec::new(name(&unit, period), unit, capacity, period.unwrap_or(MAX_PERIOD));
    let algorithm = if period.is_some() { Algorithm::TokenBucket } else { Algorithm::Quota(None) };
    LimitSpec { algorithm, ..limit }
}

/// Names a limit, by its unit alone if the name would be too long; two such limits are refused.
fn name(unit: &Name, period: Option<Span>) -> Name {
    let name = period.map_or_else(|| format!("{unit}-in-all"), |period| format!("{unit}-per-{}", word(period)));
    Name::new(&name).unwrap_or_else(|_| unit.clone())
}

fn word(period: Span) -> String {
    let named = NAMED.iter().find(|(known, _)| *known == period).map(|(_, name)| (*name).to_owned());
    named.unwrap_or_else(|| match period.nanos().is_multiple_of(1_000_000_000) {
        true => format!("{}s", period.nanos() / 1_000_000_000),
        false => format!("{}ns", period.nanos()),
    })
}

/// Displays a period as `in 60s` or `once and for all`.
struct In(Option<Span>);

impl fmt::Display for In {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(period) => write!(f, "in {period}"),
            None => f.write_str("once and for all"),
        }
    }
}

impl fmt::Display for ProvidedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.capacity, self.unit, In(self.period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::Resource;
    use rampmeter_policy::spec::ResourceSpec;

    fn provided(unit: &str, capacity: f64, secs: u64) -> ProvidedLimit {
        let (unit, capacity) = (Name::new(unit).unwrap(), Amount::new(capacity).unwrap());
        ProvidedLimit { unit, capacity, period: (secs > 0).then(|| Span::from_secs(secs)) }
    }

    fn contract(limits: &[ProvidedLimit]) -> Contract {
        Contract { limits: limits.to_vec(), notes: Vec::new() }
    }

    fn resource(limits: &[ProvidedLimit]) -> Resource {
        Resource::new(&ResourceSpec::new(Name::new("hub").unwrap(), limits_of(&contract(limits)))).unwrap()
    }

    #[test]
    fn limits_get_names_of_their_unit_and_period() {
        #[rustfmt::skip]
        let table = [
            (provided("requests", 1.0, 1),                  "requests-per-second"),
            (provided("requests", 1.0, 60),                 "requests-per-minute"),
            (provided("requests", 1.0, 3600),               "requests-per-hour"),
            (provided("requests", 1.0, 86_400),             "requests-per-day"),
            (provided("processing-units", 1.0, 2_678_400),  "processing-units-per-month"),
            (provided("requests", 1.0, 10),                 "requests-per-10s"),
            (provided("requests", 1.0, 0),                  "requests-in-all"),
            (provided(&"u".repeat(64), 1.0, 10),            &"u".repeat(64)),
        ];
        for (provided, expected) in table {
            assert_eq!(&*spec(&provided).name, expected);
        }
    }

    #[test]
    fn a_contract_speaks_of_limits_with_the_same_unit_and_period() {
        let known = resource(&[provided("requests", 300.0, 60), provided("processing-units", 300.0, 60)]);
        let news = contract(&[
            provided("requests", 300.0, 1),
            provided("requests", 500.0, 60),
            provided("processing-units", 300.0, 60),
        ]);
        let texts: Vec<String> = new_limits(known.limits(), &news).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["`requests-per-minute` is 500 in 60s, not 300"]);
        let texts: Vec<String> = unmatched(known.limits(), &news).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["300 requests in 1s"]);
    }

    #[test]
    fn an_amount_that_never_refills_is_a_quota_that_is_never_reset() {
        let known = resource(&[provided("requests", 300.0, 60), provided("requests", 5000.0, 0)]);
        let quota = known.limits()[1].spec();
        assert_eq!((&quota.algorithm, refill_of(quota)), (&Algorithm::Quota(None), None));
        let more = contract(&[provided("requests", 300.0, 60), provided("requests", 9000.0, 0)]);
        let texts: Vec<String> = new_limits(known.limits(), &more).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["`requests-in-all` is 9000 once and for all, not 5000"]);
        let year = contract(&[ProvidedLimit { period: Some(MAX_PERIOD), ..provided("requests", 1.0, 0) }]);
        assert_eq!(unmatched(known.limits(), &year).len(), 1, "a bucket that fills in a year is another limit");
    }

    #[test]
    fn levels_go_to_limits_with_the_same_unit_and_period() {
        let known = resource(&[provided("requests", 300.0, 60), provided("processing-units", 300.0, 60)]);
        let level = |secs, micros| ProvidedLevel {
            unit: Name::new("requests").unwrap(),
            period: Some(Span::from_secs(secs)),
            remaining: Amount::from_micros(micros).unwrap(),
        };
        let levels = new_levels(known.limits(), &[level(1, 1), level(60, 2)]);
        let remaining = Amount::from_micros(2).unwrap();
        assert_eq!(levels, [NewLevel { name: Name::new("requests-per-minute").unwrap(), remaining }]);
    }
}

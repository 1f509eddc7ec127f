//! The judge of rate limits: it admits everything, and tells by how much calls exceeded a limit.
//!
//! It computes in whole numbers and uses no code of the core or of the upstream. Neither can agree
//! with it by a shared mistake.

use std::collections::BTreeMap;
use std::time::Duration;

/// Millionths in a token.
pub const MICROS: u64 = 1_000_000;

/// What a call took, in millionths per unit.
pub type Cost = BTreeMap<String, u64>;

/// A call and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Time since an origin that all calls of a judgement share.
    pub at: Duration,
    /// Its cost.
    pub cost: Cost,
}

/// A limit as the judge knows it: `per_period` tokens flow in during `period`, and up to `burst`
/// are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The counted unit.
    pub unit: String,
    /// Whole tokens that flow in during a period.
    pub per_period: u64,
    /// The period.
    pub period: Duration,
    /// The most whole tokens that are kept.
    pub burst: u64,
}

/// The judgement on all calls under one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's unit.
    pub unit: String,
    /// The highest debt at any time, in millionths, rounded up. It should be zero.
    pub over_admitted_micros: u64,
    /// The lowest level at any time, in millionths, rounded down; zero if there was a debt.
    pub least_left_micros: u64,
    /// The time of the highest debt.
    pub worst_at: Duration,
}

impl Rule {
    /// The rule of a bucket that keeps a whole period's tokens.
    pub fn new(unit: &str, per_period: u64, period: Duration) -> Self {
        Rule { unit: unit.to_owned(), per_period, period, burst: per_period }
    }

    /// The same rate, with room for `burst` tokens only.
    pub fn with_burst(self, burst: u64) -> Self {
        Rule { burst, ..self }
    }

    /// The whole tokens that flow in during `time`, rounded down.
    pub fn refill(&self, time: Duration) -> u64 {
        let tokens = u128::from(self.per_period) * time.as_nanos() / self.period.as_nanos();
        u64::try_from(tokens).expect("tests take less than centuries")
    }
}

/// Judges `calls`, in the order of their times, by each of `rules`. Every bucket is full at the
/// first call.
pub fn judge(rules: &[Rule], mut calls: Vec<Call>) -> Vec<Finding> {
    calls.sort_by_key(|call| call.at);
    rules.iter().map(|rule| judge_by(rule, &calls)).collect()
}

fn judge_by(rule: &Rule, calls: &[Call]) -> Finding {
    let mut bucket = Bucket::full(rule);
    let mut lowest = (bucket.level, Duration::ZERO);
    for call in calls {
        bucket.refill_until(call.at);
        bucket.spend(call.cost.get(&rule.unit).copied().unwrap_or_default());
        if bucket.level < lowest.0 {
            lowest = (bucket.level, call.at);
        }
    }
    let period = i128::from(bucket.period_ns);
    Finding {
        unit: rule.unit.clone(),
        over_admitted_micros: whole((-lowest.0).max(0) + period - 1, period),
        least_left_micros: whole(lowest.0.max(0), period),
        worst_at: lowest.1,
    }
}

fn whole(volume: i128, period_ns: i128) -> u64 {
    u64::try_from(volume / period_ns).expect("not negative, and less than u64 counts")
}

/// Volumes are millionths of a token times nanoseconds of the period. A nanosecond then brings a
/// whole number.
struct Bucket {
    per_ns: i128,
    period_ns: u64,
    brim: i128,
    level: i128,
    last: Duration,
}

impl Bucket {
    fn full(rule: &Rule) -> Self {
        let period_ns = u64::try_from(rule.period.as_nanos()).expect("periods are shorter than centuries");
        let brim = i128::from(rule.burst * MICROS) * i128::from(period_ns);
        Bucket { per_ns: i128::from(rule.per_period * MICROS), period_ns, brim, level: brim, last: Duration::ZERO }
    }

    fn refill_until(&mut self, at: Duration) {
        let elapsed = i128::try_from((at - self.last).as_nanos()).expect("shorter than centuries");
        self.level = (self.level + self.per_ns * elapsed).min(self.brim);
        self.last = at;
    }

    fn spend(&mut self, micros: u64) {
        self.level -= i128::from(micros) * i128::from(self.period_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten tokens in a second.
    fn ten() -> Rule {
        Rule::new("requests", 10, Duration::from_secs(1))
    }

    fn call(at_ms: u64, tokens: f64) -> Call {
        let cost = Cost::from([("requests".to_owned(), (tokens * MICROS as f64) as u64)]);
        Call { at: Duration::from_millis(at_ms), cost }
    }

    /// The limit, the calls as milliseconds and tokens, what is too much, and what is left.
    type Row<'a> = (Rule, &'a [(u64, f64)], f64, f64);

    #[test]
    fn everything_is_admitted_and_the_excess_is_reported() {
        // At the rate, and one more among them.
        let even: Vec<(u64, f64)> = (0..1000).map(|number| (number * 100, 1.0)).collect();
        let planted = [&even[..], &[(1700, 1.0)]].concat();
        let narrow = |burst| ten().with_burst(burst);
        #[rustfmt::skip]
        let table: [Row<'_>; 12] = [
            (ten(),     &[],                                     0.0, 10.0),
            (ten(),     &[(0, 10.0)],                            0.0, 0.0),
            (ten(),     &[(0, 4.0)],                             0.0, 6.0),
            (ten(),     &[(0, 9.5), (50, 1.0)],                  0.0, 0.0),
            (ten(),     &[(0, 11.0), (500, 0.0), (600, 5.0)],    1.0, 0.0),
            (ten(),     &[(0, 12.0), (100, 3.0)],                4.0, 0.0),
            (ten(),     &[(0, 10.0), (5000, 11.0)],              1.0, 0.0),
            (ten(),     &[(1000, 10.0), (0, 10.0)],              0.0, 0.0),
            (narrow(4), &[(0, 4.0), (100, 1.0)],                 0.0, 0.0),
            (narrow(4), &[(0, 5.0)],                             1.0, 0.0),
            (narrow(1), &even,                                   0.0, 0.0),
            (narrow(1), &planted,                                1.0, 0.0),
        ];
        for (rule, calls, over_admitted, least_left) in table {
            let calls = calls.iter().map(|(at_ms, tokens)| call(*at_ms, *tokens)).collect();
            let [finding] = judge(&[rule], calls).try_into().unwrap();
            let found = (finding.over_admitted_micros as f64 / 1e6, finding.least_left_micros as f64 / 1e6);
            assert_eq!(found, (over_admitted, least_left), "{finding:?}");
        }
    }

    #[test]
    fn a_millionth_and_a_nanosecond_count() {
        for (late_ns, too_much) in [(100_000_000, 0), (99_999_999, 1)] {
            let late = Call { at: Duration::from_nanos(late_ns), ..call(0, 1.0) };
            assert_eq!(judge(&[ten()], vec![call(0, 10.0), late])[0].over_admitted_micros, too_much);
        }
        assert_eq!(ten().refill(Duration::from_millis(250)), 2, "it is rounded down");
    }

    #[test]
    fn each_unit_has_its_own_bucket() {
        let units = Rule::new("units", 5, Duration::from_secs(1));
        let cost = Cost::from([("requests".to_owned(), MICROS), ("units".to_owned(), 7 * MICROS)]);
        let findings = judge(&[ten(), units], vec![Call { at: Duration::ZERO, cost }]);
        let too_much: Vec<u64> = findings.iter().map(|finding| finding.over_admitted_micros).collect();
        assert_eq!(too_much, [0, 2 * MICROS]);
    }
}

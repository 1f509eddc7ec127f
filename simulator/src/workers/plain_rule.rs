//! The plain rule: take from all buckets now, and wait until none is negative.
//!
//! The rule is exact for one bucket and equal costs. If costs differ it is wrong: a bucket that was full when
//! the delay was computed may be empty when the call is made. It serves for comparison, and ignores keys.

use rampmeter_policy::Bill;
use rampmeter_policy::spec::LimitSpec;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};

#[derive(Clone, Debug)]
pub(crate) struct PlainRule(Vec<Bucket>);

/// Amounts are multiplied by the period to avoid rounding: a nanosecond refills `capacity`.
#[derive(Clone, Debug)]
struct Bucket {
    capacity: i128,
    period: i128,
    level: i128,
    at: Time,
}

impl PlainRule {
    /// Creates full buckets of these limits, or of one of `parts` equal parts of them.
    pub(crate) fn new(limits: &[LimitSpec], parts: usize) -> Self {
        let part = |limit: &LimitSpec| Bucket::new(i128::from(limit.capacity.micros()) / parts as i128, limit.period);
        PlainRule(limits.iter().filter(|limit| !limit.shadow).map(part).collect())
    }

    /// Takes the cost of a call, and returns how long the call has to wait.
    pub(crate) fn take(&mut self, now: Time, bill: &Bill) -> Span {
        let charges = bill.shared().map(|(limit, amount)| self.0[limit.index()].take(now, amount));
        charges.max().unwrap_or(Span::ZERO)
    }
}

impl Bucket {
    fn new(capacity: i128, period: Span) -> Self {
        let period = i128::from(period.nanos());
        Bucket { capacity, period, level: capacity * period, at: Time::ORIGIN }
    }

    fn take(&mut self, now: Time, amount: Amount) -> Span {
        let refilled = self.level + self.capacity * i128::from(now.since(self.at).nanos());
        self.level = refilled.min(self.capacity * self.period) - i128::from(amount.micros()) * self.period;
        self.at = now;
        let nanos = (-self.level).max(0).checked_div(self.capacity).unwrap_or(i128::MAX);
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2) + u64::from(self.level < 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::Resource;
    use rampmeter_policy::spec::{Margin, ResourceSpec};
    use rampmeter_protocol::labels::Labels;
    use rampmeter_protocol::name::Name;

    #[test]
    fn one_bucket_and_equal_costs() {
        let name = Name::new("requests").unwrap();
        let (capacity, margin) = (Amount::new(2.0).unwrap(), Margin::Auto);
        let limit = LimitSpec { margin, ..LimitSpec::new(name.clone(), name.clone(), capacity, Span::from_secs(1)) };
        let spec = ResourceSpec::new(name, vec![limit]);
        let bill = Resource::new(&spec).unwrap().bill(&Labels::new(), [].into_iter()).unwrap();
        for (parts, delays) in [(1, [0, 0, 500, 1000]), (2, [0, 1000, 2000, 3000])] {
            let mut rule = PlainRule::new(&spec.limits, parts);
            let found = delays.map(|_| rule.take(Time::ORIGIN, &bill).millis().round());
            assert_eq!(found, delays.map(f64::from), "{parts}");
        }
    }
}

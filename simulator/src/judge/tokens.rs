//! Checks that no span of time takes more of a bucket than its stock and its refill.

use rampmeter_policy::spec::LimitSpec;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;

/// Returns by how much a window first exceeds capacity + rate · T, and when that window ends. A window of
/// length T that takes more would overdraw even a full bucket. Of windows with this end, the worst counts.
pub(super) fn excess(limit: &LimitSpec, taken: impl Iterator<Item = (Time, Amount)>) -> Option<(i128, Time)> {
    let (capacity, period) = (i128::from(limit.capacity.micros()), i128::from(limit.period.nanos()));
    // Amounts are multiplied by the period to avoid rounding.
    let (mut sum, mut lowest) = (0, i128::MAX);
    for (at, amount) in taken {
        let refilled = capacity * i128::from(at.nanos());
        lowest = lowest.min(sum - refilled);
        sum += i128::from(amount.micros()) * period;
        let too_much = sum - refilled - lowest - capacity * period;
        if too_much > 0 {
            return Some((too_much / period, at));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::spec::Margin;
    use rampmeter_protocol::name::Name;
    use rampmeter_protocol::time::Span;

    #[test]
    fn a_window_may_take_what_a_full_bucket_and_its_refill_give() {
        let name = Name::new("ten-per-second").unwrap();
        let (capacity, margin) = (Amount::new(10.0).unwrap(), Margin::Fixed(Amount::ZERO));
        let limit = LimitSpec { margin, ..LimitSpec::new(name.clone(), name, capacity, Span::from_secs(1)) };
        let at = |millis| Time::ORIGIN + Span::from_millis(millis);
        let found = |calls: &[(u64, f64)]| {
            let taken = calls.iter().map(|(millis, units)| (at(*millis), Amount::new(*units).unwrap()));
            excess(&limit, taken).map(|(too_much, _)| too_much)
        };
        for allowed in [&[(0, 10.0)][..], &[(0, 5.0), (500, 10.0)], &[(0, 10.0), (100, 1.0), (1100, 10.0)]] {
            assert_eq!(found(allowed), None, "{allowed:?}");
        }
        assert_eq!(found(&[(0, 10.0), (99, 1.0)]), Some(10_000));
        assert_eq!(found(&[(0, 5.0), (5000, 6.0), (5100, 6.0)]), Some(1_000_000));
    }
}

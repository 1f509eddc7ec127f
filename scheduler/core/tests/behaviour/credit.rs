//! Arithmetic that never rounds in favour of the caller, and does not overflow.

use crate::prelude::*;
use rampmeter_scheduler_core::arithmetic::credit::Rate;
use rampmeter_scheduler_core::policy::spec::MAX_PERIOD;

#[test]
fn an_amount_is_refilled_to_the_nanosecond_and_not_before() {
    // Capacity, period in ms, amount, its refill time in ns.
    let table = [
        (1000.0, 60_000, 1.0, 60_000_000),
        (400_000.0, 744 * 3_600_000, 1.0, 6_696_000_000),
        (3.0, 1_000, 1.0, 333_333_334),
        (3.0, 1_000, 0.000_001, 334),
        (1e9, 1_000, 0.000_001, 1),
    ];
    for (capacity, period_ms, paid, nanos) in table {
        let rate = Rate::new(amount(capacity), Span::from_millis(period_ms));
        let paid = rate.credit(amount(paid));
        assert_eq!(rate.refilled_at(paid), Time::from_nanos(nanos), "{capacity} in {period_ms} ms");
        assert!(rate.refill(Time::from_nanos(nanos - 1)) < paid, "{capacity} in {period_ms} ms");
    }
}

#[test]
fn levels_are_rounded_down_and_what_is_spent_is_rounded_up() {
    let rate = Rate::new(amount(3.0), Span::from_secs(1));
    let some = rate.refill(Time::from_nanos(1));
    assert_eq!((rate.micros(some), rate.micros(-some)), (0, -1));
    assert_eq!((rate.micros_up(some), rate.micros_up(-some)), (1, 0));
}

/// The largest amounts within the longest period, in numbers without a common divisor.
#[test]
fn nothing_overflows_at_the_bounds() {
    let most = Amount::from_micros(999_999_999_999_999).unwrap();
    let period = MAX_PERIOD.saturating_sub(Span::from_nanos(1));
    let rate = Rate::new(most, period);
    assert_eq!(rate.refilled_at(rate.credit(most)), Time::from_nanos(period.nanos()));
    assert_eq!(rate.refilled_at(rate.refill(Time::NEVER)), Time::NEVER);
    let algorithms = [
        Algorithm::TokenBucket,
        Algorithm::FixedWindow(Alignment::Epoch),
        Algorithm::SlidingWindow,
        Algorithm::Concurrency,
        Algorithm::Quota(None),
    ];
    for algorithm in algorithms {
        let spec = LimitSpec { capacity: most, period, algorithm: algorithm.clone(), ..limit("requests", 1.0, period) };
        let mut world = World::new(&resource(vec![spec]));
        let all = [("requests", most.units())];
        world.ask(Time::ORIGIN, &wish(Mode::Reserve, &[("requests", 1.0)]).named("a"));
        for (count, mode) in [(20_000, Mode::Wait), (200, Mode::Reserve)] {
            for _ in 0..count {
                world.ask(Time::ORIGIN, &wish(mode, &all));
            }
        }
        let used = vec![("requests".to_owned(), most)];
        world.settle(Time::from_nanos(1), "a", Outcome::Used(used));
        assert!(!world.scheduler.snapshot(Time::from_nanos(1), 1_000).levels.is_empty());
        world.handle(Time::from_nanos(period.nanos()), Event::Wake);
        assert!(world.scheduler.limit_status(Time::NEVER)[0].level <= most.units(), "{algorithm:?}");
    }
}

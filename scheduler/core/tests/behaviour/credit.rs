//! Levels that do not overflow.

use crate::prelude::*;
use rampmeter_policy::spec::MAX_PERIOD;

/// The largest amounts within the longest period, in numbers without a common divisor.
#[test]
fn nothing_overflows_at_the_bounds() {
    let most = Amount::from_micros(999_999_999_999_999).unwrap();
    let period = MAX_PERIOD.saturating_sub(Span::from_nanos(1));
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

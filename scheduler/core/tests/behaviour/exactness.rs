//! Starts are exact: never too early for an independent judge, and never later than necessary.

use crate::prelude::*;
use proptest::prelude::*;

/// Limits with a token every few nanoseconds, so that tests can try every instant, and the pause before
/// each reservation and its cost of each limit.
#[derive(Clone, Debug)]
struct Small {
    limits: Vec<LimitSpec>,
    reservations: Vec<(u64, Vec<u64>)>,
}

fn small_world() -> impl Strategy<Value = Small> {
    prop::collection::vec((1..12_u64, 1..9_u64), 1..4).prop_flat_map(|limits| {
        let reservation = (0..25_u64, prop::collection::vec(0..12_u64, limits.len()));
        let limits: Vec<LimitSpec> = limits.into_iter().enumerate().map(small_limit).collect();
        (Just(limits), prop::collection::vec(reservation, 1..40))
            .prop_map(|(limits, reservations)| Small { limits, reservations })
    })
}

fn small_limit((index, (capacity, nanos_per_token)): (usize, (u64, u64))) -> LimitSpec {
    limit(&format!("u{index}"), capacity as f64, Span::from_nanos(capacity * nanos_per_token))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// A reservation gets the first possible instant. That is the first at which adding it leaves no bucket's
    /// history with a negative level.
    #[test]
    fn no_reservation_starts_earlier_or_later_than_it_could(Small { limits, reservations } in small_world()) {
        let mut world = World::new(&resource(limits.clone()));
        let (mut now, mut promised) = (Time::ORIGIN, vec![Vec::new(); limits.len()]);
        for (pause, cost) in reservations {
            now += Span::from_nanos(pause);
            world.run_until(now);
            let cost = cost.iter().zip(&limits).map(|(units, limit)| amount(*units as f64).min(limit.capacity));
            let cost: Vec<Amount> = cost.collect();
            let by_unit: Vec<(&str, f64)> =
                limits.iter().zip(&cost).map(|(limit, cost)| (&*limit.unit, cost.units())).collect();
            let request = world.ask(now, &wish(Mode::Reserve, &by_unit));
            let fits = |at: Time| {
                let mut after = limits.iter().zip(promised.iter().zip(&cost));
                after.all(|(limit, (calls, cost))| {
                    Judge::new(limit).lowest(&[calls, &[(at, *cost)][..]].concat()) >= 0
                })
            };
            let first = (now.nanos()..).map(Time::from_nanos).find(|at| fits(*at)).unwrap();
            prop_assert_eq!(world.start(request), Some(first), "asked at {} for {:?}", now, cost);
            promised.iter_mut().zip(cost).for_each(|(calls, cost)| calls.push((first, cost)));
        }
    }
}

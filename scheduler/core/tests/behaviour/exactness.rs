//! Starts are exact: never too early for an independent judge, and never later than necessary.

use crate::prelude::*;
use proptest::prelude::*;

/// The plain formula of one bucket: decrement it, and wait until it is not negative.
fn plain_delays_ms(capacity: u64, period_ms: u64, calls: u64) -> Vec<f64> {
    let overdrawn = |call: u64| call.saturating_sub(capacity) as f64;
    (1..=calls).map(|call| overdrawn(call) * period_ms as f64 / capacity as f64).collect()
}

#[test]
fn one_bucket_and_equal_costs_give_the_plain_formula() {
    // Capacity, period in ms, calls.
    let table = [(10, 1_000, 40), (1_000, 60_000, 2_500), (300, 60_000, 400), (5, 5_000, 23), (7, 1_000, 50)];
    for (capacity, period_ms, calls) in table {
        for mode in [Mode::Reserve, Mode::Wait] {
            let mut world =
                World::new(&resource(vec![limit("requests", capacity as f64, Span::from_millis(period_ms))]));
            let asked: Vec<usize> = (0..calls).map(|_| world.ask(Time::ORIGIN, &wish(mode, &[]))).collect();
            world.run_until(Time::ORIGIN + Span::from_secs(3600));
            for (request, plain) in asked.into_iter().zip(plain_delays_ms(capacity, period_ms, calls)) {
                let delay = world.start(request).expect("granted").since(Time::ORIGIN).millis();
                assert!((delay - plain).abs() < 1e-3, "{mode:?} {capacity}/{period_ms} ms: {delay} instead of {plain}");
            }
        }
    }
}

/// A small world with a token every few nanoseconds, so that tests can try every instant.
#[derive(Clone, Debug)]
struct Small {
    limits: Vec<LimitSpec>,
    headrooms: Vec<f64>,
    asks: Vec<SmallAsk>,
}

/// A request: its delay after the previous one, cost, class, client, mode, and whether it is
/// returned.
#[derive(Clone, Debug)]
struct SmallAsk {
    pause: u64,
    cost: Vec<u64>,
    class: usize,
    client: usize,
    mode: Mode,
    given_back_after: Option<u64>,
}

fn small_limit() -> impl Strategy<Value = (u64, u64)> {
    (1..12_u64, 1..9_u64)
}

fn small_ask(limits: usize) -> impl Strategy<Value = SmallAsk> {
    let cost = prop::collection::vec(0..12_u64, limits);
    let mode = prop_oneof![4 => Just(Mode::Reserve), 1 => Just(Mode::Allow), 2 => Just(Mode::Wait)];
    let back = prop::option::weighted(0.2, 0..40_u64);
    let whose = (0..2_usize, 0..3_usize);
    (0..25_u64, cost, whose, mode, back).prop_map(|(pause, cost, (class, client), mode, given_back_after)| SmallAsk {
        pause,
        cost,
        class,
        client,
        mode,
        given_back_after,
    })
}

fn small_world() -> impl Strategy<Value = Small> {
    prop::collection::vec(small_limit(), 1..4).prop_flat_map(|limits| {
        let count = limits.len();
        let specs: Vec<LimitSpec> = limits.iter().enumerate().map(|(index, limit)| small_spec(index, *limit)).collect();
        let bulk = prop_oneof![Just(0.0), Just(0.3)];
        (Just(specs), bulk, prop::collection::vec(small_ask(count), 1..40)).prop_map(|(limits, bulk, asks)| Small {
            limits,
            headrooms: vec![0.0, bulk],
            asks,
        })
    })
}

fn small_spec(index: usize, (capacity, nanos_per_token): (u64, u64)) -> LimitSpec {
    let unit = name(&format!("u{index}"));
    let period = Span::from_nanos(capacity * nanos_per_token);
    let margin = Margin::Fixed(Amount::ZERO);
    let capacity = Amount::from_micros(capacity * 1_000_000).unwrap();
    LimitSpec { margin, ..LimitSpec::new(unit.clone(), unit, capacity, period) }
}

fn small_resource(small: &Small) -> ResourceSpec {
    let mut spec = resource(small.limits.clone());
    spec.horizon = Span::from_nanos(5);
    spec.classes = small.headrooms.iter().enumerate().map(|(at, share)| class(&format!("c{at}"), *share)).collect();
    spec
}

/// Replays a small world and returns all starts, without returned permits.
fn replay(
    small: &Small,
    mut judge_ask: impl FnMut(&[Started], Time, &[Amount], &SmallAsk, Option<Time>),
) -> Vec<Started> {
    let mut world = World::new(&small_resource(small));
    let mut now = Time::ORIGIN;
    let mut started: Vec<Started> = Vec::new();
    let mut to_give_back: Vec<(Time, usize)> = Vec::new();
    for (number, ask) in small.asks.iter().enumerate() {
        now += Span::from_nanos(ask.pause);
        to_give_back.sort();
        while let Some((at, request)) = to_give_back.first().copied().filter(|(at, _)| *at <= now) {
            to_give_back.remove(0);
            world.run_until(at);
            collect(&world, small, &mut started);
            give_back(&mut world, &mut started, at, request);
        }
        world.run_until(now);
        collect(&world, small, &mut started);
        let cost = costs(small, ask);
        let units: Vec<String> = (0..small.limits.len()).map(|unit| format!("u{unit}")).collect();
        let cost_by_unit: Vec<(&str, f64)> =
            units.iter().map(String::as_str).zip(cost.iter().map(|c| c.units())).collect();
        let [id, class, client] = [format!("p{number}"), format!("c{}", ask.class), format!("k{}", ask.client)];
        let ours = Wish { id: Some(&id), class: Some(&class), client: Some(&client), ..wish(ask.mode, &cost_by_unit) };
        let request = world.ask(now, &ours);
        judge_ask(&started, now, &cost, ask, world.start(request));
        collect(&world, small, &mut started);
        if let Some(after) = ask.given_back_after {
            to_give_back.push((now + Span::from_nanos(after), number));
        }
    }
    world.run_until(now + Span::from_secs(1));
    collect(&world, small, &mut started);
    started
}

#[derive(Clone, Debug)]
struct Started {
    request: usize,
    at: Time,
    cost: Vec<Amount>,
    given_back: bool,
}

fn costs(small: &Small, ask: &SmallAsk) -> Vec<Amount> {
    let capped =
        ask.cost.iter().zip(&small.limits).map(|(cost, limit)| (cost * 1_000_000).min(limit.capacity.micros()));
    capped.map(|micros| Amount::from_micros(micros).unwrap()).collect()
}

/// Notes the grants since the last call.
fn collect(world: &World, small: &Small, started: &mut Vec<Started>) {
    for (at, request, answer) in &world.answers {
        let known = started.iter().any(|known| known.request == *request);
        if let (SentAnswer::Granted(delay), false) = (answer, known) {
            let cost = costs(small, &small.asks[*request]);
            started.push(Started { request: *request, at: *at + *delay, cost, given_back: false });
        }
    }
}

/// Returns or cancels a request. A refused request is unknown, so that nothing changes.
fn give_back(world: &mut World, started: &mut [Started], now: Time, request: usize) {
    world.settle(now, &format!("p{request}"), Outcome::Unused);
    started.iter_mut().filter(|known| known.request == request).for_each(|known| known.given_back = true);
}

fn calls_of(started: &[Started], limit: usize) -> Vec<(Time, Amount)> {
    started.iter().filter(|call| !call.given_back).map(|call| (call.at, call.cost[limit])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_start_makes_any_bucket_negative(small in small_world()) {
        let started = replay(&small, |_, _, _, _, _| {});
        for (index, limit) in small.limits.iter().enumerate() {
            let lowest = Judge::new(limit).lowest(&calls_of(&started, index));
            prop_assert!(lowest >= 0, "{} fell to {lowest}", limit.name);
        }
    }

    /// Without waiting requests and headroom, a reservation gets the first possible instant. That
    /// is the first at which adding it leaves no bucket's history with a negative level.
    #[test]
    fn no_reservation_starts_later_than_it_could(mut small in small_world()) {
        small.headrooms = vec![0.0, 0.0];
        for ask in &mut small.asks {
            ask.mode = Mode::Reserve;
            ask.given_back_after = None;
        }
        let limits = small.limits.clone();
        replay(&small, |started, now, cost, _, granted| {
            let fits = |at: Time| limits.iter().enumerate().all(|(index, limit)| {
                let mut calls = calls_of(started, index);
                calls.push((at, cost[index]));
                Judge::new(limit).lowest(&calls) >= 0
            });
            let first = (now.nanos()..).map(Time::from_nanos).find(|at| fits(*at)).unwrap();
            assert_eq!(granted, Some(first), "asked at {now} for {cost:?}");
        });
    }
}

//! Answers of the upstream and their consequences.

#![expect(clippy::print_stdout, reason = "figures, shown with --nocapture")]

use crate::prelude::*;
use rampmeter_protocol::settle::{Headers, Report, Response, Settle};
use rampmeter_scheduler_core::wire;

#[test]
fn a_settle_counts_the_upstreams_429() {
    let mut world = World::new(&ten_per_second());
    for (status, counted) in [(200, 0), (429, 1), (503, 1), (429, 2)] {
        let response = Response { status, headers: Headers::default(), quota_spent: false, code: None };
        let report = Report { response: Some(response), ..Report::default() };
        let settle = Settle::reported(PermitId::new("unknown").unwrap(), report);
        let settle = wire::settle(&world.scheduler, None, &settle, None);
        world.handle(ms(0), Event::Settle(settle));
        assert_eq!(world.scheduler.counters().upstream_429, counted);
    }
}

scripts! {
    calls_of_one_round_trip_teach_once(ten_per_second()): "
        0   wait a                    -> a@0
        0   wait b                    -> b@0
        0   wait c                    -> c@0
        40  answered a 429 after=100  -> a:settled
        # Of ten tokens that should have been there none was. What has come in since is there.
        40  levels                    -> requests=0.4
        40  answered b 429 after=100  -> b:settled
        40  answered c 429 after=100  -> c:settled
        40  levels                    -> requests=0.4
    "

    no_call_starts_in_a_freeze_and_one_probe_goes_first(ten_per_second()): "
        0    wait a                     -> a@0
        0    answered a 429 after=300   -> a:settled
        0    wait b                     ->
        0    wait c                     ->
        0    wait d                     ->
        240                             ->
        # The probe; other calls follow once it was served.
        250                             -> b@300
        2000                            ->
        2000 answered b 200             -> b:settled c@2000 d@2000
    "

    an_unreported_probe_holds_other_calls_for_two_seconds(ten_per_second()): "
        0    wait a                     -> a@0
        0    answered a 429 after=300   -> a:settled
        0    wait b                     ->
        0    wait c                     ->
        2000                            -> b@300
        2300                            -> c@2300
    "

    a_probe_that_is_given_back_lets_another_go_first(ten_per_second()): "
        0    wait a                     -> a@0
        0    answered a 429 after=300   -> a:settled
        0    wait b                     ->
        0    wait c                     ->
        260                             -> b@300
        260  unused b                   -> b:settled c@300
    "

    promised_starts_within_a_freeze_are_void(ten_per_second()): "
        0    reserve a requests=10     -> a@0
        0    reserve b                 -> b@100
        0    reserve c requests=9      -> c@1000
        0    answered a 429 after=500  -> frozen+500 a:settled
        0    unused b                  -> b:settled
        0    reserve b2                -> b2@500
    "

    promised_starts_within_a_freeze_of_their_key_are_void(
        resource(vec![by("guild", limit("requests", 10.0, span(1000)))])
    ): "
        0    reserve a requests=10 guild:x  -> a@0
        0    reserve b guild:x              -> b@100
        0    answered a 429 after=500       -> frozen=x+500 a:settled
        0    reserve c requests=10 guild:y  -> c@0
        0    answered c 429 after=500       -> c:settled
    "

    a_rejection_for_other_accounts_pauses_and_teaches_nothing(ten_per_second()): "
        0    wait a                           -> a@0
        0    answered a 429 after=300 others  -> a:settled
        # Whether the call took something of ours is not known: it stays charged.
        0    levels                           -> requests=9
        0    wait b                           ->
        300                                   -> b@300
    "

    // Of a quota no earlier level is remembered, and it has nearly all of its stock.
    a_quota_with_stock_is_not_to_blame_for_a_rate(with_quota()): "
        0     reserve x requests=8 units=1     -> x@0
        0     wait a requests=2 units=1        -> a@0
        0     answered a 429 after=500         -> a:settled
        0     levels                           -> requests=-3 units=99
    "

    a_spent_quota_is_terminal_until_its_reset(with_quota()): "
        0     wait a units=10                  -> a@0
        0     reserve x requests=9             -> x@0
        0     wait b units=1                   ->
        0     wait c                           ->
        # A request without need of it goes on.
        0     answered a 403 unit=units after=60000  -> a:settled b:quota_spent+60000 c@0
        10    reserve d units=1                -> d:quota_spent+59990
        60000 reserve e units=1                -> e@60000
    "

    a_remaining_amount_lowers_a_level_at_once_and_raises_it_slowly(ten_per_second()): "
        0     wait a                   -> a@0
        0     answered a 200 left=4    -> a:settled
        0     levels                   -> requests=4
        0     wait b requests=4        -> b@0
        500   wait c                   -> c@500
        500   answered c 200 left=10   -> c:settled
        # There are six more than the bucket says. A twentieth of what has come in is believed on top.
        500   levels                   -> requests=4.25
    "

    stock_that_calls_on_their_way_will_take_is_no_surplus(ten_per_second()): "
        0     wait a                   -> a@0
        5000  wait b requests=2        -> b@5000
        5000  wait c requests=5        -> c@5000
        # The first call to arrive took two of ten, and the other one has not arrived.
        5040  answered b 200 left=8    -> b:settled
        5040  levels                   -> requests=3.4
    "

    a_refused_call_has_taken_nothing_of_what_is_left(resource(vec![limit("requests", 100.0, span(10_000))])): "
        0     wait a requests=100             -> a@0
        2000  wait b requests=8               -> b@2000
        # Five of eight were missing, and the call did not take the three.
        2100  answered b 429 after=500 left=3 -> b:settled
        2100  levels                          -> requests=4
    "

    unproven_stock_is_used_slowly(
        ResourceSpec {
            start: StartPolicy::Unproven,
            ..resource(vec![LimitSpec { margin: Margin::Fixed(amount(0.5)), ..limit("requests", 100.0, span(100_000)) }])
        }
    ): "
        0    wait a              -> a@0
        0    wait b              -> b@0
        0    wait c              -> c@0
        0    wait d              -> d@0
        0    wait e              ->
        # What is binding is believed.
        0    reserve f           -> f@0
        100  answered a 200      -> a:settled e@100
    "
}

#[test]
fn the_blamed_limit_is_the_named_one_or_that_with_the_least_refill_left() {
    // By the refill left, the requests would have lasted for 0.5 s and the units for 1 s. The
    // rejected call took nothing from the other limit.
    for (scope, after, levels) in [
        ("", 100, "requests=0 units=20"),
        ("unit=units", 1000, "requests=6 units=0"),
        ("limit=units", 1000, "requests=6 units=0"),
        ("unit=requests", 100, "requests=0 units=20"),
    ] {
        play(
            &two_limits(),
            &format!(
                "
                0  reserve x requests=4 units=80           -> x@0
                0  wait a units=10                         -> a@0
                0  answered a 429 after={after} {scope}    -> a:settled
                0  levels                                  -> {levels}
                ",
            ),
        );
    }
}

#[test]
fn an_amount_in_thousands_is_neither_a_deficit_nor_a_surplus() {
    let spec = resource(vec![limit("requests", 10_000.0, span(10_000))]);
    for (left, meaning, level) in [
        ("7000", "the 7600 that are left, rounded down", "7640"),
        ("8000", "the same, rounded up", "7640"),
        ("6000", "less than that rounds to", "7039"),
    ] {
        println!("{meaning}");
        play(
            &spec,
            &format!(
                "
                0     wait a                                  -> a@0
                5000  wait b requests=2400                    -> b@5000
                5040  answered b 200 left={left} steps=1000   -> b:settled
                5040  levels                                  -> requests={level}
                "
            ),
        );
    }
}

#[test]
fn a_level_that_was_read_is_compared_with_that_of_its_time() {
    let spec = ResourceSpec { limits: vec![limit("requests", 10.0, span(1000))], ..ten_per_second() };
    let mut world = play(
        &spec,
        "
        0    reserve a requests=10   -> a@0
        0    reserve b requests=5    -> b@500
        ",
    );
    let limit = world.scheduler.resource().limit("requests").unwrap();
    let at = |millis| Time::ORIGIN + Span::from_millis(millis);
    world.run_until(at(290));
    // The level is right at 200 ms; the promise of b stays.
    world.handle(at(300), Event::Levels { asked: at(200), answered: at(210), levels: vec![(limit, amount(2.0))] });
    play_on(world, "300 levels -> requests=-2");
}

/// Calls whose costs are learned by route.
struct Routes {
    world: World,
    calls: u64,
}

impl Routes {
    fn new() -> Self {
        let limit = limit("units", 10_000.0, span(10_000_000_000));
        let spec = ResourceSpec { learn_costs: vec!["route".to_owned()], ..resource(vec![limit]) };
        Routes { world: World::new(&spec), calls: 0 }
    }

    /// The charge of a call that is estimated to cost `estimate` and actually costs `cost`.
    fn call(&mut self, route: &str, estimate: f64, cost: f64) -> f64 {
        self.calls += 1;
        let (now, id) = (ms(self.calls), format!("p{}", self.calls));
        let before = self.world.level_micros(now);
        self.world.ask(now, &wish(Mode::Allow, &[("units", estimate)]).named(&id).labelled("route", route));
        let charged = before - self.world.level_micros(now);
        self.world.settle(now, &id, Outcome::Used(vec![("units".to_owned(), amount(cost))]));
        charged as f64 / 1e6
    }
}

#[test]
fn estimates_of_a_kind_of_calls_follow_what_such_calls_cost() {
    let mut routes = Routes::new();
    let charged: Vec<f64> = (0..60).map(|_| routes.call("/light", 10.0, 0.5)).collect();
    assert_eq!(charged[0], 10.0);
    assert!(charged.is_sorted_by(|a, b| a >= b) && charged[59] < 1.6, "an eighth at the least: {charged:?}");
    assert_eq!(routes.call("/heavy", 10.0, 10.0), 10.0, "another kind");
    let corrections = routes.world.scheduler.corrections();
    assert_eq!(
        corrections.iter().map(|known| (&*known.kind, known.calls)).collect::<Vec<_>>(),
        [("/heavy", 1), ("/light", 60)]
    );
}

#[test]
fn charges_follow_repeated_costs() {
    // The estimate, the alternating actual costs, and the later charge: at most eight times the
    // estimate.
    let table = [
        (10.0, [5.0, 5.0], 5.0..=5.2),
        (10.0, [10.0, 10.0], 10.0..=10.0),
        (2.0, [7.0, 7.0], 7.0..=7.04),
        (1.0, [20.0, 20.0], 8.0..=8.0),
        (10.0, [2.0, 6.0], 3.5..=4.5),
    ];
    for (estimate, costs, expected) in table {
        let mut routes = Routes::new();
        let charged = (0..200).map(|call| routes.call("/route", estimate, costs[call % 2])).last().unwrap();
        assert!(expected.contains(&charged), "{estimate} for {costs:?}: {charged}");
    }
}

#[test]
fn beyond_the_bound_a_kind_of_call_keeps_its_estimate() {
    let mut routes = Routes::new();
    (0..1024).for_each(|kind| _ = routes.call(&format!("/{kind}"), 10.0, 2.5));
    let mut last = |route: &str| (0..40).map(|_| routes.call(route, 10.0, 2.5)).last().unwrap();
    assert!(last("/1023") < 5.0);
    assert_eq!(last("/1024"), 10.0);
}

//! Urgent requests overtake waiting bulk requests, and bulk requests do not starve.

use crate::prelude::*;

scripts! {
    a_reservation_leaves_the_headroom_of_its_class(with_bulk(ten_per_second(), 0.2)): "
        0  reserve bulk-1 class=bulk requests=8  -> bulk-1@0
        0  reserve bulk-2 class=bulk             -> bulk-2@100
        # The headroom is for urgent requests, and a promise to bulk does not stand in the way.
        0  reserve urgent-1 requests=2           -> urgent-1@0
        0  reserve urgent-2                      -> urgent-2@200
    "

    a_waiting_request_leaves_the_headroom_of_its_class(with_bulk(ten_per_second(), 0.2)): "
        0   wait bulk-1 class=bulk requests=8    -> bulk-1@0
        0   wait bulk-2 class=bulk               ->
        49.999999                                ->
        50                                       -> bulk-2@100
        50  levels                               -> requests=1.5
        100 levels                               -> requests=2
    "

    a_cost_that_could_never_leave_the_headroom_takes_a_full_bucket(with_bulk(ten_per_second(), 0.2)): "
        0   reserve a class=bulk requests=9      -> a@0
        0   reserve b class=bulk requests=9      -> b@900
    "

    /// Half of three millionths are two.
    a_headroom_is_rounded_up(with_bulk(resource(vec![limit("requests", 0.000_003, span(3000))]), 0.5)): "
        0   reserve a class=bulk requests=0.000001   -> a@0
        0   reserve b class=bulk requests=0.000001   -> b@1000
    "
}

#[test]
fn bulk_alone_gets_all_of_the_refill() {
    for mode in [Mode::Reserve, Mode::Wait] {
        let mut world = World::new(&with_bulk(ten_per_second(), 0.2));
        let asked: Vec<usize> = (0..108).map(|_| world.ask(ms(0), &wish(mode, &[]).of_class("bulk"))).collect();
        world.run_until(ms(60_000));
        let starts: Vec<Time> = asked.into_iter().map(|request| world.start(request).unwrap()).collect();
        let burst_then_refill: Vec<Time> = (0..108_u64).map(|call| ms(100 * call.saturating_sub(7))).collect();
        assert_eq!(starts, burst_then_refill, "{mode:?}");
    }
}

scripts! {
    urgent_requests_overtake_waiting_ones(with_bulk(ten_per_second(), 0.2)): "
        0    reserve first requests=10           -> first@0
        0    wait bulk-1 class=bulk              ->
        0    wait bulk-2 class=bulk              ->
        0    wait urgent                         ->
        50                                       -> urgent@100
        # One token is spent at 100 ms; one and the headroom of two are there at 400 ms.
        349.999999                               ->
        350                                      -> bulk-1@400
        450                                      -> bulk-2@500
    "

    a_start_within_the_horizon_is_not_overtaken(with_bulk(ten_per_second(), 0.0)): "
        0   reserve first requests=10            -> first@0
        0   wait bulk class=bulk                 ->
        50                                       -> bulk@100
        50  wait urgent                          ->
        150                                      -> urgent@200
    "

    a_reservation_goes_ahead_of_less_urgent_requests_that_wait(with_bulk(ten_per_second(), 0.0)): "
        0   reserve first requests=10            -> first@0
        0   wait bulk class=bulk requests=5      ->
        0   reserve urgent requests=2            -> urgent@200
        0   reserve more-bulk class=bulk         -> more-bulk@800
        650                                      -> bulk@700
    "

    bulk_goes_ahead_of_an_urgent_promise_that_still_finds_its_cost(
        with_bulk(resource(vec![limit("requests", 10.0, span(1000)), limit("pages", 1.0, span(500))]), 0.2)
    ): "
        0   reserve first pages=1                        -> first@0
        0   reserve urgent pages=1 requests=8            -> urgent@500
        # Nine are there, and the headroom is left. Eight will be there at 500 ms.
        0   reserve bulk class=bulk requests=6           -> bulk@0
    "

    /// A bulk request waits for `pages`. The urgent request still gets the `requests` that are free
    /// before the promise at 10 s.
    a_reservation_uses_a_gap_although_less_urgent_requests_wait(
        with_bulk(resource(vec![limit("requests", 10.0, span(1000)), limit("pages", 1.0, span(10_000))]), 0.0)
    ): "
        0   reserve first pages=1                        -> first@0
        0   reserve far pages=1 requests=10              -> far@10000
        0   wait bulk class=bulk pages=1                 ->
        0   reserve urgent requests=5                    -> urgent@0
    "
}

fn starving(max_starvation: Span) -> ResourceSpec {
    let bulk = ClassSpec { max_starvation: Some(max_starvation), ..class("bulk", 0.2) };
    ResourceSpec { classes: vec![class("urgent", 0.0), bulk], ..ten_per_second() }
}

scripts! {
    the_oldest_is_promoted_when_its_class_has_starved(starving(span(1000))): "
        0    reserve first requests=10           -> first@0
        0    wait bulk-1 class=bulk              ->
        0    wait bulk-2 class=bulk              ->
        0    wait urgent-1 requests=10           ->
        950                                      -> urgent-1@1000
        999  wait urgent-2 requests=10           ->
        # At 1000 ms the oldest goes first. It takes the next token, without leaving a headroom.
        # So does the second, 1000 ms later, although urgent-2 has saved up nine tokens.
        1000                                     ->
        1050                                     -> bulk-1@1100
        2049.999999                              ->
        2050                                     -> bulk-2@2050
    "

    the_longest_overdue_is_promoted_first(
        ResourceSpec {
            classes: [
                starving(span(600)).classes,
                vec![ClassSpec { max_starvation: Some(span(500)), ..class("last", 0.2) }],
            ]
            .concat(),
            ..ten_per_second()
        }
    ): "
        0    reserve first requests=10           -> first@0
        0    reserve second requests=9           -> second@900
        0    wait urgent requests=10             ->
        0    wait bulk class=bulk                ->
        0    wait last class=last                ->
        950                                      -> last@1000
        1050                                     -> bulk@1100
    "

    a_promoted_request_goes_before_later_reservations(starving(span(1000))): "
        0     reserve first requests=10          -> first@0
        0     wait bulk class=bulk               ->
        0     reserve urgent-1 requests=10       -> urgent-1@1000
        500   reserve urgent-2 requests=10       -> urgent-2@2000
        # It has starved since 1000 ms, and gets the next token.
        1500  reserve urgent-3 requests=10       -> urgent-3@3100
        2050                                     -> bulk@2100
        2500  reserve urgent-4 requests=10       -> urgent-4@4100
    "

    a_stated_age_promotes_no_client_ahead_of_another(shared(starving(span(1000)), &[])): "
        90000  reserve first requests=10                 -> first@90000
        90000  wait honest client=h class=bulk           ->
        90000  wait liar client=l class=bulk age=3600000 ->
        90000  wait urgent-1 requests=10                 ->
        90999  wait urgent-2 requests=10                 -> urgent-1@91000
        91050                                            -> honest@91100
    "

    grants_from_another_limit_do_not_end_starvation(
        ResourceSpec {
            limits: vec![limit("requests", 10.0, span(1000)), limit("units", 10.0, span(1000))],
            ..starving(span(1000))
        }
    ): "
        0    reserve first units=10              -> first@0
        0    wait starved class=bulk requests=0 units=1 ->
        0    wait urgent-1 requests=0 units=10   ->
        # Its class is served, though not for what it waits for.
        500  wait bulk class=bulk                -> bulk@500
        950                                      -> urgent-1@1000
        999  wait urgent-2 requests=0 units=10   ->
        1000                                     ->
        1050                                     -> starved@1100
        2500                                     -> urgent-2@2100
    "
}

#[test]
fn a_promoted_request_goes_before_later_answers_at_once() {
    let urgent = (1..10).map(|tick| format!("{0} allow u{0} -> u{0}@{0}\n", tick * 100)).collect::<String>();
    play(
        &starving(span(1000)),
        &format!(
            "
            0     reserve first requests=10          -> first@0
            0     wait large class=bulk requests=5   ->
            {urgent}
            1000  allow late                         -> late:not_in_time+500
            1300  allow later                        -> later:not_in_time+200
            1400                                     -> large@1400
            1500  allow last                         -> last@1500
            "
        ),
    );
}

#[test]
fn one_is_promoted_in_each_time_of_starvation() {
    let mut world = World::new(&starving(span(1000)));
    let bulk: Vec<usize> = (0..20).map(|_| world.ask(ms(0), &wish(Mode::Wait, &[]).of_class("bulk"))).collect();
    let at_first = bulk.iter().filter(|request| world.start(**request).is_some()).count();
    assert_eq!(at_first, 8, "all but the headroom");
    // Urgent requests want twice the capacity.
    for tick in 0..200 {
        world.run_until(ms(50 * tick));
        world.ask(ms(50 * tick), &wish(Mode::Wait, &[]));
    }
    world.run_until(ms(10_000));
    let promoted: Vec<Time> = bulk[at_first..].iter().filter_map(|request| world.start(*request)).collect();
    assert_eq!(promoted.len(), 9, "{promoted:?}");
    assert!(promoted.is_sorted(), "the oldest first: {promoted:?}");
    for (served, next) in promoted.iter().zip(&promoted[1..]) {
        let pause = next.since(*served);
        assert!((span(1000)..=span(1150)).contains(&pause), "{pause} at {next}");
    }
}

//! Limits that count in windows of time.

use crate::prelude::*;

fn fixed(alignment: Alignment) -> ResourceSpec {
    ten(Algorithm::FixedWindow(alignment))
}

/// The same for calls that may be late.
fn late(algorithm: Algorithm) -> ResourceSpec {
    let limit = LimitSpec { margin: Margin::Auto, ..limit("requests", 10.0, span(1000)) };
    resource(vec![counted(algorithm, limit)])
}

/// Ten in each window of ten seconds by the clock.
fn ten_seconds() -> LimitSpec {
    counted(Algorithm::FixedWindow(Alignment::Epoch), limit("requests", 10.0, span(10_000)))
}

/// The wall clock shows `unix_nanos` at the origin of time.
fn resource_at(spec: &ResourceSpec, unix_nanos: u64) -> Resource {
    Resource::new(spec).unwrap().with_wall_clock(WallClockOrigin::from_unix_nanos(unix_nanos))
}

/// Ten requests, as the algorithm counts them, and a unit in each second.
fn ten_and_units(algorithm: Algorithm, period: u64, key: &[&str]) -> ResourceSpec {
    let requests = counted(algorithm, keyed("requests", 10.0, period, key));
    resource(vec![requests, limit("units", 10.0, span(10_000))])
}

scripts! {
    a_new_window_is_full_at_once(fixed(Alignment::Epoch)): "
        300  reserve a requests=10     -> a@300
        300  allow b                   -> b:not_in_time+700
        300  wait c requests=4         ->
        300  reserve d requests=7      -> d@2000
        900  levels                    -> requests=-7
        949                            ->
        950                            -> c@1000
        1000 levels                    -> requests=-7
        1000 allow e requests=6        -> e@1000
        2500 levels                    -> requests=3
    "

    a_window_that_is_nearly_full_has_room_for_small_ones(fixed(Alignment::Epoch)): "
        300  reserve a requests=6      -> a@300
        300  reserve b requests=5      -> b@1000
        300  reserve c requests=4      -> c@300
        300  reserve d                 -> d@1000
        300  reserve e requests=10     -> e@2000
        1500 reserve f requests=5      -> f@3000
        1500 reserve g requests=4      -> g@1500
    "

    unused_cost_returns_to_the_window_of_its_call_alone(fixed(Alignment::Epoch)): "
        0    reserve a requests=6      -> a@0
        0    reserve b requests=4      -> b@0
        500  used a requests=1         -> a:settled
        500  levels                    -> requests=5
        1000 unused b                  -> b:settled
        1000 levels                    -> requests=10
        1000 reserve c requests=8      -> c@1000
        1100 used c requests=12        -> c:settled
        1100 levels                    -> requests=-2
        1100 reserve d                 -> d@2000
        1200 unused d                  -> d:settled
        2000 levels                    -> requests=10
    "

    /// Usage counts in every window that it may lie in under the other clock. A promise counts in the
    /// window of its start.
    windows_follow_a_clock_that_is_set_and_keep_their_usage(
        [resource(vec![ten_seconds()]), resource(vec![by("guild", ten_seconds())])]
    ): "
        9000  reserve a requests=6 guild:x   -> a@9000
        9000  reserve b requests=7 guild:x   -> b@10000
        9100  clock 3000                     ->
        # The first window is from 7 s to 17 s now: what was taken may have been before it, and counts.
        9100  reserve c requests=4 guild:x   -> c@17000
        17000 reserve d requests=6 guild:x   -> d@17000
        17000 reserve e guild:x              -> e@27000
    "

    a_promise_that_another_clock_has_put_into_another_window_can_be_given_back(resource(vec![ten_seconds()])): "
        1000  reserve a requests=10    -> a@1000
        1000  reserve b requests=10    -> b@10000
        1000  clock 3000               ->
        1000  unused b                 -> b:settled
        7000  reserve c requests=10    -> c@17000
        1000000 levels                 -> requests=10
    "

    a_window_that_begins_with_its_first_call(fixed(Alignment::FirstUse)): "
        300  reserve a requests=10     -> a@300
        300  used a                    -> a:settled
        300  reserve b                 -> b@1300
        300  reserve c requests=10     -> c@2300
        400  reserve d requests=9      -> d@1300
    "

    headroom_shrinks_towards_the_end_of_a_window(with_bulk(fixed(Alignment::Epoch), 0.4)): "
        0    reserve a class=bulk requests=6 -> a@0
        0    reserve b class=bulk            -> b@250
        0    reserve c class=bulk            -> c@500
        0    reserve d class=urgent requests=2 -> d@0
        0    reserve e class=bulk            -> e@1000
    "

    the_rest_of_a_window_goes_to_later_requests_that_fit(fixed(Alignment::Epoch)): "
        300  wait a requests=7         -> a@300
        300  wait b requests=6         ->
        300  wait c requests=4         ->
        310  wait d requests=2         -> d@310
        320  wait e                    -> e@320
        330  wait f                    ->
        400  used d requests=1         -> d:settled f@400
        950                            -> b@1000 c@1000
    "

    /// b waits first and keeps its start. c would take stock that b needs at that start; d leaves
    /// enough for b, and starts at once.
    the_rest_of_a_sliding_window_goes_to_later_requests_that_fit(ten(Algorithm::SlidingWindow)): "
        0    wait a requests=5         -> a@0
        100  wait b requests=8         ->
        200  wait c requests=3         ->
        200  wait d requests=2         -> d@200
        950                            -> b@1000
        1949                           ->
        1950                           -> c@2000
    "

    /// The rest of a window goes to smaller requests of the blocked class. Another class takes it only
    /// afterwards, although its headroom has shrunk.
    the_rest_of_a_window_goes_to_the_own_class_before_others(with_bulk(fixed(Alignment::Epoch), 0.2)): "
        0    wait a class=urgent requests=7 -> a@0
        0    wait b class=urgent requests=6 ->
        100  wait c class=bulk requests=2   ->
        200  wait d class=urgent requests=2 -> d@200
        450                                 ->
        950                                 -> b@1000 c@1000
    "

    a_request_that_fits_once_the_headroom_has_shrunk_is_not_forgotten(with_bulk(fixed(Alignment::Epoch), 0.2)): "
        0    wait a class=bulk requests=7 -> a@0
        0    wait b class=bulk requests=6 ->
        0    wait c class=bulk            -> c@0
        0    wait d class=bulk            ->
        449                               ->
        450                               -> d@500
        950                               -> b@1000
    "

    /// The starts of other requests of its class do not help a starving request.
    a_passed_request_still_starves(
        ResourceSpec {
            classes: vec![class("urgent", 0.0), ClassSpec { max_starvation: Some(span(1500)), ..class("bulk", 0.0) }],
            ..fixed(Alignment::Epoch)
        }
    ): "
        0    reserve a class=urgent requests=7 -> a@0
        0    wait b class=urgent requests=7    ->
        0    wait c class=bulk requests=5      ->
        800  wait d class=bulk                 -> d@800
        950                                    -> b@1000
        1400 wait e class=bulk                 -> e@1400
        1450 wait f class=urgent requests=7    ->
        1500                                   ->
        1950                                   -> c@2000
        2950                                   -> f@3000
    "

    calls_that_may_be_late_stay_away_from_the_ends_of_windows(late(Algorithm::FixedWindow(Alignment::Epoch))): "
        0    reserve a requests=10     -> a@50
        0    reserve b                 -> b@1050
        1940 reserve c                 -> c@1940
        1955 reserve d                 -> d@2050
    "

    /// The upstream had counted b by then. A fifth of the jitter is left for clocks that drift.
    an_answered_call_leaves_a_sliding_window_a_period_after_its_answer(late(Algorithm::SlidingWindow)): "
        0    reserve a requests=4      -> a@0
        0    reserve b requests=5      -> b@0
        10   answered b 200            -> b:settled
        60   answered a 200            -> a:settled
        100  reserve c requests=5      -> c@1020
        100  reserve d requests=4      -> d@1050
        # So does one that was made before its start.
        200  reserve e requests=5      -> e@2070
        300  answered e 200            -> e:settled
        300  levels                    -> requests=-13
        300  reserve f                 -> f@1310
    "

    /// Its client may have hung up while the request was on its way.
    a_call_without_an_answer_counts_for_its_jitter(late(Algorithm::SlidingWindow)): "
        0    reserve a requests=10     -> a@0
        10   used a                    -> a:settled
        10   reserve b                 -> b@1050
    "

    an_answered_call_counts_for_a_period_of_a_longer_window(
        late(Algorithm::SlidingWindow),
        "longer": resource(vec![LimitSpec { jitter: Span::ZERO, ..counted(Algorithm::SlidingWindow, limit("requests", 10.0, span(1100))) }])
    ): "
        0    reserve a requests=10     -> a@0
        0    answered a 200            -> a:settled
        500  limits longer             ->
        500  reserve b                 -> b@1110
    "

    a_sliding_window_frees_the_usage_of_a_period_ago(ten(Algorithm::SlidingWindow)): "
        0    reserve a requests=4      -> a@0
        300  reserve b requests=6      -> b@300
        300  reserve c requests=5      -> c@1300
        300  reserve d requests=4      -> d@1000
        400  used b requests=2         -> b:settled
        400  levels                    -> requests=-5
        400  allow e requests=1        -> e@400
        400  allow f requests=1        -> f:not_in_time+1000
        1400 levels                    -> requests=1
    "

    a_call_that_is_made_before_its_start_counts_when_it_is_made(fixed(Alignment::Epoch)): "
        0    reserve a requests=4      -> a@0
        0    reserve b requests=8      -> b@1000
        100  used b                    -> b:settled
        1000 reserve c requests=10     -> c@1000
    "

    a_request_for_a_spent_quota_does_not_wait(ten(Algorithm::Quota(Some(Alignment::Epoch)))): "
        0    wait a requests=9         -> a@0
        300  wait b requests=2         -> b:quota_spent+700
        300  reserve c requests=1      -> c@300
        1000 wait d requests=10        -> d@1000
        1000 reserve e                 -> e:quota_spent+1000
    "

    a_request_for_a_spent_quota_without_reset_does_not_wait(ten(Algorithm::Quota(None))): "
        0      reserve a requests=9    -> a@0
        100000 reserve b requests=2    -> b:quota_spent
        100000 unused a                -> a:settled
        100000 reserve c requests=10   -> c@100000
    "

    promises_after_a_reset_take_nothing_from_the_present_quota(
        ten_and_units(Algorithm::Quota(Some(Alignment::Epoch)), 1000, &[])
    ): "
        0    reserve a units=10        -> a@0
        0    reserve b units=1         -> b@1000
        10   reserve c requests=9      -> c@10
        10   reserve d requests=1      -> d:quota_spent+990
    "

    the_demand_of_waiting_requests_spends_a_quota_without_reset(ten_and_units(Algorithm::Quota(None), 10_000, &[])): "
        0    wait a requests=0 units=10  -> a@0
        0    wait b requests=8 units=1   ->
        10   reserve c requests=4        -> c:quota_spent
        950                              -> b@1000
    "

    a_window_with_room_is_open_to_all_while_another_limit_holds_up_the_first(
        with_bulk(
            resource(vec![
                LimitSpec { margin: Margin::Auto, ..counted(Algorithm::FixedWindow(Alignment::Epoch), limit("requests", 10.0, span(1000))) },
                limit("units", 10.0, span(10_000)),
            ]),
            0.0,
        )
    ): "
        100  wait a requests=0 units=10         -> a@100
        # The units come in at the end of a window, and the start is in the next one.
        100  wait b requests=3 units=1.89       ->
        100  wait c requests=4                  -> c@100
        100  wait d requests=5 class=bulk       -> d@100
        2000                                    -> b@2050
    "
}

/// Hundreds of windows hold different amounts; a start is in the first one with room.
#[test]
fn the_first_window_with_room_is_found_beyond_many() {
    const COUNT: u64 = 300;
    let taken = |number: u64| if number % 37 == 5 { 7.0 } else { 8.0 + (number % 2) as f64 };
    let mut world = World::new(&fixed(Alignment::Epoch));
    for number in 0..COUNT {
        // The rest of each window is reserved, too, and returned once all windows are full.
        let (id, rest) = (format!("a{number}"), format!("b{number}"));
        let asked = world.ask(ms(0), &wish(Mode::Reserve, &[("requests", taken(number))]).named(&id));
        world.ask(ms(0), &wish(Mode::Reserve, &[("requests", 10.0 - taken(number))]).named(&rest));
        assert_eq!(world.start(asked), Some(ms(number * 1000)));
    }
    (0..COUNT).for_each(|number| drop(world.settle(ms(0), &format!("b{number}"), Outcome::Unused)));
    for number in 0..COUNT {
        let first = (number..COUNT).find(|later| taken(*later) == 7.0).unwrap_or(COUNT);
        let (now, id) = (ms(number * 1000), format!("c{number}"));
        let found = world.ask(now, &wish(Mode::Reserve, &[("requests", 3.0)]).named(&id));
        assert_eq!(world.start(found), Some(ms(first * 1000)), "from window {number} on");
        world.settle(now, &id, Outcome::Unused);
    }
}

/// A predecessor whose clock was three seconds behind may have used all of its window at the
/// window's end.
#[test]
fn usage_by_another_clock_counts_until_the_end_of_every_window_that_it_meets() {
    let spec = resource(vec![ten_seconds()]);
    let mut before = play(&spec, "9000 reserve a requests=10 -> a@9000");
    let snapshot = before.scheduler.snapshot(ms(9_500), 0);
    let ahead = resource_at(&spec, 3_000_000_000);
    play_on(
        World::of(Scheduler::restore(ahead, Epoch::new(2), ms(9_500), ms(9_500), &snapshot)),
        "
        10100 reserve b                -> b@17000
        17000 reserve c requests=9     -> c@17000
        ",
    );
}

#[test]
fn a_waiting_request_for_a_spent_quota_is_refused_and_waits_for_no_key() {
    for (reset, refused) in [(Some(Alignment::Epoch), "b:quota_spent+9500"), (None, "b:quota_spent")] {
        play(
            &ten_and_units(Algorithm::Quota(reset), 10_000, &["client"]),
            &format!(
                "
                0    wait a client:x requests=0 units=10 -> a@0
                0    wait b client:x requests=6 units=1  ->
                500  reserve c client:x requests=9       -> c@500 {refused}
                ",
            ),
        );
    }
}

#[test]
fn a_held_start_spends_nothing_of_a_quota() {
    for key in [&[][..], &["client"]] {
        for (reset, refused) in [(Some(Alignment::Epoch), "c:quota_spent+9050"), (None, "c:quota_spent")] {
            let spec = ten_and_units(Algorithm::Quota(reset), 10_000, key);
            let before = "
                0    wait a client:x requests=0 units=10  -> a@0
                0    wait b client:x requests=8 units=1   ->
                10   wait c client:x requests=4           ->
            ";
            for after in [&format!("950 -> b@1000 {refused}"), "20 undelivered b -> c@20"] {
                play(&spec, &format!("{before}\n{after}"));
            }
        }
    }
}

#[test]
fn each_key_has_windows_of_its_own() {
    let each = counted(Algorithm::FixedWindow(Alignment::Epoch), keyed("each", 10.0, 1000, &["guild"]));
    let world = play(
        &resource(vec![each]),
        "
        0    wait a guild:x requests=10   -> a@0
        0    wait b guild:x               ->
        0    wait c guild:y requests=9    -> c@0
        950                               -> b@1000
        1500                              ->
        ",
    );
    let mut world = play_on(world, "2500 wait d guild:z -> d@2500");
    world.run_until(ms(10_000));
    world.ask(ms(10_000), &Wish { labels: vec![("guild", "z")], ..wish(Mode::Wait, &[]) });
    assert_eq!(world.scheduler.limit_status(ms(10_000))[0].keys, 1, "what is as new is forgotten");
}

/// The wall time at the origin of the predecessor's time.
const UNIX: u64 = 1_795_000_000_000_000_000;

/// A successor whose wall clock shows `then` when that of its predecessor shows `at`.
fn succeeded(spec: &ResourceSpec, before: &mut World, at: Time, then: Time, unix: u64) -> World {
    World::of(Scheduler::restore(
        resource_at(spec, unix),
        Epoch::new(2),
        then,
        then,
        &before.scheduler.snapshot(at, 100),
    ))
}

#[test]
fn a_successor_knows_usage_and_promises() {
    // The milliseconds by which the wall clock was set, the next start, and the start after the
    // return of b.
    let table = [
        (Algorithm::FixedWindow(Alignment::Epoch), 0, "102000", "101000"),
        (Algorithm::FixedWindow(Alignment::Epoch), 80, "102000", "101000"),
        (Algorithm::FixedWindow(Alignment::Epoch), -3_600_000, "102000", "101000"),
        (Algorithm::FixedWindow(Alignment::Epoch), 3_600_000, "102000", "101000"),
        (Algorithm::FixedWindow(Alignment::FirstUse), 0, "102300", "101300"),
        (Algorithm::SlidingWindow, 0, "102300", "101300"),
    ];
    for (algorithm, set, next, freed) in table {
        let spec = ten(algorithm.clone());
        let resource = resource_at(&spec, UNIX);
        let world = World::of(Scheduler::new(resource, Epoch::FIRST, Time::ORIGIN));
        let mut before = play_on(world, "300 reserve a requests=10 -> a@300");
        let b = before.ask(ms(600), &wish(Mode::Reserve, &[("requests", 6.0)]).named("b"));
        assert!(before.start(b).is_some_and(|start| start >= ms(1000)), "{algorithm:?}");
        let unix = (UNIX - 100_000_000_000).checked_add_signed(set * 1_000_000).unwrap();
        let after = succeeded(&spec, &mut before, ms(600), ms(100_600), unix);
        let next = next.parse::<u64>().unwrap() as i64;
        let freed = freed.parse::<u64>().unwrap() as i64;
        // Windows end by this wall clock.
        let cut = if algorithm == Algorithm::FixedWindow(Alignment::Epoch) && set == 80 { set } else { 0 };
        play_on(
            after,
            &format!(
                "
                100600 reserve c requests=5   -> c@{}
                100600 unused c               -> c:settled
                100600 unused b               -> b:settled
                100600 reserve d requests=5   -> d@{}
                ",
                next - cut,
                freed - cut
            ),
        );
    }
}

/// The record is from 600 ms, and its reader is certain only that it was written before 700 ms. So
/// d may start at any time from 2300 to 2400 ms.
#[test]
fn a_promise_counts_from_the_earliest_to_the_latest_time_that_is_possible() {
    for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow(Alignment::FirstUse)] {
        let spec = ten(algorithm);
        let resource = resource_at(&spec, UNIX);
        let mut before = play_on(
            World::of(Scheduler::new(resource, Epoch::FIRST, Time::ORIGIN)),
            "
            300 reserve a requests=10 -> a@300
            300 reserve b requests=10 -> b@1300
            300 reserve d requests=6  -> d@2300
            500 unused b              -> b:settled
            ",
        );
        play_on(
            succeeded(&spec, &mut before, ms(600), ms(700), UNIX),
            "
            700 reserve c requests=4  -> c@1400
            700 reserve e requests=5  -> e@3400
            ",
        );
    }
}

/// A snapshot merges many windows into fewer blocks, and another clock cuts windows elsewhere. So
/// several promises may share one block. If one is returned, the others still count.
#[test]
fn promises_in_merged_windows_are_counted_one_by_one() {
    let mut spec = fixed(Alignment::Epoch);
    spec.limits.push(limit("units", 40.0, span(40_000)));
    let world = World::of(Scheduler::new(resource_at(&spec, UNIX), Epoch::FIRST, Time::ORIGIN));
    let mut before = play_on(
        world,
        "
        0 reserve z requests=0 units=40    -> z@0
        0 reserve a requests=10 units=35.9 -> a@35900
        ",
    );
    for number in 0..45 {
        before.ask(ms(0), &wish(Mode::Reserve, &[("requests", 10.0), ("units", 0.0)]).named(&format!("b{number}")));
    }
    // The window from 35.5 to 36.5 s has a, and one that begins at 36 s.
    let after = succeeded(&spec, &mut before, ms(500), ms(500), UNIX + 1_500_000_000);
    play_on(
        after,
        "
        500 unused a                       -> a:settled
        500 reserve c requests=10 units=0  -> c@46500
        ",
    );
}

/// A record that has levels alone, without usage: listed promises still take a part of their
/// windows.
#[test]
fn permits_tell_the_usage_of_windows_if_the_record_does_not() {
    let spec = fixed(Alignment::Epoch);
    let mut before = play(&spec, "0 reserve a requests=10 -> a@0\n 0 reserve b requests=6 -> b@1000");
    let mut snapshot = before.scheduler.snapshot(ms(100), 100);
    snapshot.levels.iter_mut().for_each(|level| level.usage = None);
    play_on(
        World::restored(&spec, ms(100), ms(100), &snapshot),
        "100 reserve c requests=5 -> c@2000\n 100 reserve d requests=4 -> d@1000",
    );
}

//! Clients share a class fairly: start-time fair queueing on the dominant share.

use crate::prelude::*;
use rampmeter_policy::spec::Pattern;

/// Ten requests in a second, of which client `a` may make five.
fn with_a_cap() -> ResourceSpec {
    let cap = LimitSpec { name: name("cap"), ..limit("requests", 5.0, span(1000)) };
    let matching = [("client".to_owned(), Pattern::Exact("a".to_owned()))].into();
    let cap = LimitSpec { applies: Applies { matching, ..Applies::default() }, ..cap };
    resource(vec![limit("requests", 10.0, span(1000)), cap])
}

/// Ten requests and ten units in a second.
fn two_units() -> ResourceSpec {
    resource(vec![limit("requests", 10.0, span(1000)), limit("units", 10.0, span(1000))])
}

scripts! {
    a_backfill_moves_no_newcomer_behind_those_that_it_passed(
        shared(
            resource(vec![counted(Algorithm::FixedWindow(Alignment::Epoch), limit("requests", 10.0, span(10_000)))]),
            &[],
        )
    ): "
        1000   wait z client=z requests=9      -> z@1000
        # One is left in this window.
        1000   wait a1 client=a requests=6     ->
        1000   wait c1 client=c requests=2     ->
        1000   wait c2 client=c requests=2     ->
        1000   wait c3 client=c requests=2     ->
        1000   wait a2 client=a requests=1     -> a2@1000
        1000   wait b client=b requests=2      ->
        20000                                  -> a1@10000 c1@10000 b@10000 c2@20000 c3@20000
    "

    clients_take_turns_and_each_is_served_in_its_own_order(shared(ten_per_second(), &[])): "
        0    reserve spent requests=10            -> spent@0
        0    wait a1 client=a                     ->
        0    wait a2 client=a                     ->
        0    wait a3 client=a                     ->
        0    wait b1 client=b                     ->
        0    wait b2 client=b                     ->
        500                                       -> a1@100 b1@200 a2@300 b2@400 a3@500
    "

    a_client_of_twice_the_weight_gets_twice_as_much(shared(ten_per_second(), &[("a", 2.0)])): "
        0    reserve spent requests=10            -> spent@0
        0    wait a1 client=a                     ->
        0    wait a2 client=a                     ->
        0    wait a3 client=a                     ->
        0    wait a4 client=a                     ->
        0    wait b1 client=b                     ->
        0    wait b2 client=b                     ->
        600                                       -> a1@100 b1@200 a2@300 a3@400 b2@500 a4@600
    "

    a_call_counts_by_its_share_of_the_limit_that_it_burdens_most(shared(two_units(), &[])): "
        0    reserve spent requests=10 units=10   -> spent@0
        # a's calls take 0.4 s of the units, b's 0.2 s of the requests: b gets two for one.
        0    wait a1 client=a units=4             ->
        0    wait a2 client=a units=4             ->
        0    wait b1 client=b units=1 requests=2  ->
        0    wait b2 client=b units=1 requests=2  ->
        0    wait b3 client=b units=1 requests=2  ->
        0    wait b4 client=b units=1 requests=2  ->
        2000                                      -> a1@400 b1@500 b2@600 a2@1000 b3@1100 b4@1200
    "

    a_client_with_a_cap_has_as_much_as_others_below_it(shared(with_a_cap(), &[])): "
        0    reserve spent client=c client:c requests=10   -> spent@0
        0    wait a1 client=a client:a                     ->
        0    wait a2 client=a client:a                     ->
        0    wait a3 client=a client:a                     ->
        0    wait b1 client=b client:b                     ->
        0    wait b2 client=b client:b                     ->
        0    wait b3 client=b client:b                     ->
        1000                                      -> a1@100 b1@200 a2@300 b2@400 a3@500 b3@600
    "

    idle_clients_save_no_credit_and_a_lone_client_gets_everything(shared(ten_per_second(), &[])): "
        0    reserve spent requests=10            -> spent@0
        0    wait a1 client=a                     ->
        0    wait a2 client=a                     ->
        0    wait a3 client=a                     ->
        0    wait a4 client=a                     ->
        0    wait a5 client=a                     ->
        250                                       -> a1@100 a2@200 a3@300
        # b comes late: it goes next, once, but has no turns to make up for.
        250  wait b1 client=b                     ->
        250  wait b2 client=b                     ->
        900                                       -> b1@400 a4@500 b2@600 a5@700
    "

    requests_that_need_no_scarce_limit_go_on(shared(two_units(), &[])): "
        0    reserve spent requests=1 units=10    -> spent@0
        0    wait a1 client=a units=5             ->
        0    wait a2 client=a units=1             ->
        # The same client's calls without units start at once, and so do those of other clients.
        0    wait a3 client=a units=0             -> a3@0
        10   wait b1 client=b units=0             -> b1@10
        # A request for units waits behind earlier turns, however little it needs.
        20   wait b2 client=b units=1             ->
        800                                       -> a1@500 b2@600 a2@700
    "

    requests_that_flow_past_do_not_move_the_turns_of_held_ones(shared(two_units(), &[("q", 0.1), ("z", 0.02)])): "
        0    reserve spent units=10               -> spent@0
        # These need both, and wait for units.
        0    wait p1 client=p units=5             ->
        0    wait p2 client=p units=5             ->
        0    wait p3 client=p units=5             ->
        # q needs requests only, and has had many of them soon, for its weight.
        0    wait q1 client=q requests=3          -> q1@0
        0    wait q2 client=q requests=3          -> q2@0
        # It turns out that it took all there were: now p waits for requests.
        0    used q1 requests=15                  -> q1:settled
        # z needs units only, and has had many of them soon.
        300  wait z1 client=z requests=0 units=1  -> z1@300
        600  wait z2 client=z requests=0 units=1  -> z2@600
        # A newcomer that needs both goes after p1, as if no request had flowed past.
        650  wait n1 client=n units=1             ->
        3000                                      -> p1@1000 n1@1100 p2@1300 p3@1800
    "

    an_uncontended_limit_gives_no_credit(shared(two_units(), &[])): "
        0    reserve spent requests=10            -> spent@0
        0    wait k1 client=k units=0             ->
        0    wait k2 client=k units=0             ->
        0    wait k3 client=k units=0             ->
        0    wait k4 client=k units=0             ->
        0    wait k5 client=k units=0             ->
        210                                       -> k1@100 k2@200
        # Units are plentiful: that n needs them too gets it nothing that k does not get.
        260  wait n1 client=n units=1             -> k3@300
        260  wait n2 client=n units=1             ->
        260  wait n3 client=n units=1             ->
        1000                                      -> n1@400 k4@500 n2@600 k5@700 n3@800
    "

    uncontended_service_is_free(shared(two_units(), &[])): "
        0    reserve spent units=10               -> spent@0
        # m waits for units, and makes calls meanwhile that need none.
        0    wait m1 client=m units=1             ->
        0    wait m2 client=m requests=4          -> m2@0
        0    wait m3 client=m requests=5          -> m3@0
        # When requests run out too, uncontended service does not count against it.
        0    wait g1 client=g                     ->
        0    wait m4 client=m                     ->
        0    wait g2 client=g                     ->
        0    wait g3 client=g                     ->
        490                                       -> m1@100 g1@200 m4@300 g2@400 g3@500
    "

    a_large_request_holds_the_queue(shared(ten_per_second(), &[])): "
        0    reserve spent requests=10            -> spent@0
        0    wait a1 client=a requests=5          ->
        100  wait b1 client=b                     ->
        100  wait c1 client=c                     ->
        # A single token is there at 200 ms, but the five are ahead.
        460                                       -> a1@500
        700                                       -> b1@600 c1@700
    "

    a_deadline_out_of_reach_is_refused_at_once(shared(ten_per_second(), &[])): "
        0    reserve spent requests=9             -> spent@0
        0    reserve late                         -> late@0
        0    wait a1 client=a requests=3          ->
        0    wait a2 client=a within=700          ->
        # The upstream says that a call before cost far more: no call can start before 1100 ms.
        10   used late requests=11                -> late:settled a2:not_in_time+1390
        1400                                      -> a1@1300
    "

    a_request_with_an_age_keeps_its_place_in_its_client(shared(ten_per_second(), &[])): "
        0    reserve spent requests=10            -> spent@0
        40   wait a2 client=a                     ->
        40   wait a3 client=a                     ->
        40   wait b1 client=b                     ->
        45   wait a1 client=a age=30              ->
        500                                       -> a1@100 a2@200 b1@300 a3@400
    "

    /// A successor counts what its predecessor kept waiting, and a client that was cut off for a minute.
    /// Reaches `MAX_AGE_AT_START`.
    an_age_counts_up_to_a_minute_before_the_leader_came(
        World::of(Scheduler::new(Resource::new(&shared(ten_per_second(), &[])).unwrap(), Epoch::FIRST, ms(1_000_000)))
    ): "
        1010000  reserve spent requests=10            -> spent@1010000
        1010000  wait a1 client=a age=71000           ->
        1010000  wait a2 client=a age=80000000        ->
        1010000  wait a3 client=a age=69000           ->
        1010300                                       -> a1@1010100 a2@1010200 a3@1010300
    "

    a_cancelled_request_costs_its_client_no_turn(shared(ten_per_second(), &[])): "
        0    reserve spent requests=10            -> spent@0
        0    wait a1 client=a                     ->
        0    wait a2 client=a requests=9          ->
        0    wait b1 client=b                     ->
        0    wait b2 client=b                     ->
        0    unused a2                            -> a2:unknown_permit a2:settled
        0    wait a3 client=a                     ->
        500                                       -> a1@100 b1@200 b2@300 a3@400
    "

    /// A client whose requests miss their deadlines still gets its share.
    a_missed_deadline_costs_its_client_no_turn(shared(ten_per_second(), &[])): "
        0    reserve spent requests=10            -> spent@0
        0    wait a1 client=a within=250          ->
        0    wait a2 client=a within=250          ->
        0    wait a3 client=a within=250          ->
        0    wait a4 client=a within=250          ->
        0    wait b1 client=b                     ->
        0    wait b2 client=b                     ->
        0    wait b3 client=b                     ->
        0    wait b4 client=b                     ->
        # Each is refused when its turn comes too late, or its deadline passes.
        210                                       -> a1@100 b1@200 a2:not_in_time+150
        260                                       -> a3:not_in_time+150 a4:not_in_time+250 b2@300
        # As if they had never asked.
        260  wait a5 client=a                     ->
        260  wait a6 client=a                     ->
        600                                       -> a5@400 b3@500 a6@600
    "
}

/// A client that asks for every combination of units, and cancels, makes no other request wait.
#[test]
fn combinations_without_a_waiting_request_block_no_other() {
    let units = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut world = World::new(&resource(units.map(|unit| limit(unit, 10.0, span(1000))).to_vec()));
    world.ask(Time::ORIGIN, &wish(Mode::Reserve, &units.map(|unit| (unit, 10.0))[..7]));
    world.ask(Time::ORIGIN, &wish(Mode::Wait, &[("a", 10.0)]));
    for combination in 2..128_usize {
        let chosen = units.into_iter().enumerate().filter(|(bit, _)| combination & 1 << bit != 0);
        let cost: Vec<(&str, f64)> = chosen.map(|(_, unit)| (unit, 1.0)).collect();
        let id = combination.to_string();
        world.ask(Time::ORIGIN, &wish(Mode::Wait, &cost).named(&id));
        world.settle(Time::ORIGIN, &id, Outcome::Unused);
    }
    let free = world.ask(Time::ORIGIN, &wish(Mode::Wait, &[("h", 1.0)]));
    assert_eq!(world.start(free), Some(Time::ORIGIN));
}

/// With too many combinations at once, a request with a further one counts as needing all limits.
/// No request is passed for ever.
#[test]
fn combinations_beyond_the_bound_wait_for_everything_until_some_are_gone() {
    let units = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for (combinations, starts_at_once) in [(63, true), (64, false), (128, false)] {
        let mut world = World::new(&resource(units.map(|unit| limit(unit, 10.0, span(1000))).to_vec()));
        world.ask(Time::ORIGIN, &wish(Mode::Reserve, &units.map(|unit| (unit, 10.0))[..7]));
        for combination in 1..combinations {
            let chosen = units.into_iter().enumerate().filter(|(bit, _)| combination & (1_usize << bit) != 0);
            let cost: Vec<(&str, f64)> = chosen.map(|(_, unit)| (unit, 1.0)).collect();
            world.ask(Time::ORIGIN, &wish(Mode::Wait, &cost));
        }
        let free = world.ask(Time::ORIGIN, &wish(Mode::Wait, &[("h", 1.0)]));
        assert_eq!(world.start(free).is_some(), starts_at_once, "{combinations} combinations");
        world.run_until(Time::ORIGIN + span(60_000));
        assert!(world.start(free).is_some(), "{combinations} combinations");
    }
}

//! Long calls in flight keep their places, even under a scheduler that started later than the
//! calls.

use crate::prelude::*;

/// Two in flight, which end after a second unless they are renewed.
fn two() -> LimitSpec {
    LimitSpec { algorithm: Algorithm::Concurrency, ..limit("requests", 2.0, span(1_000)) }
}

fn two_of_each() -> ResourceSpec {
    resource(vec![LimitSpec { applies: Applies { key: vec!["guild".to_owned()], ..Applies::default() }, ..two() }])
}

/// A successor that knows the levels at `then` and no permit, as after a crash.
fn crashed(world: &mut World, spec: &ResourceSpec, then: u64) -> World {
    let snapshot = Snapshot { permits: Vec::new(), ..world.scheduler.snapshot(ms(then), 0) };
    let resource = Resource::new(spec).unwrap();
    let mut successor = Scheduler::restore(resource, Epoch::new(2), ms(then), ms(then), &snapshot);
    successor.lead_alone();
    World::of(successor)
}

scripts! {
    a_renewed_call_holds_its_place_for_another_lease(resource(vec![two()])): "
        0    allow a requests=2     -> a@0
        900  extend a               -> a:extended
        1800 extend a               -> a:extended
        2700 wait b                 ->
        2800                        -> b@2800
    "

    /// The request waits until its deadline, because a call may end long before its lease.
    a_request_that_waits_for_a_call_in_flight_is_refused_at_its_deadline(resource(vec![two()])): "
        0    allow a requests=2     -> a@0
        0    wait b within=500      ->
        0    wait c within=300      ->
        300                         ->
        400                         -> c:not_in_time+699.999999
        400  used a                 -> a:settled b@400
    "
}

#[test]
fn an_unknown_call_is_counted_anew() {
    let spec = resource(vec![two()]);
    let mut before = play(&spec, "0 allow a -> a@0");
    let after = crashed(&mut before, &spec, 300);
    play_on(
        after,
        "
        300  levels                 -> requests=1
        # Once for what the predecessor knew, and once by its name.
        400  extend a anew          -> a:extended
        400  levels                 -> requests=0
        1000 levels                 -> requests=1
        1300 extend a anew          -> a:extended
        2200 levels                 -> requests=1
        2200 used a                 -> a:settled
        2200 levels                 -> requests=2
        ",
    );
}

/// The bucket of a key knows no time since its last change.
#[test]
fn an_unknown_call_of_a_key_is_counted_anew_as_one_that_has_started() {
    let applies = Applies { key: vec!["guild".to_owned()], ..Applies::default() };
    // Each event looks at two keys.
    let others: String = (0..9).map(|key| format!("0 allow o{key} guild:{key} -> o{key}@0\n")).collect();
    let script = "
        0    allow a guild:x         -> a@0
        400  extend b anew guild:x   -> b:extended
        500  extend a                -> a:extended
        500  levels                  -> requests=0
        ";
    play(&resource(vec![LimitSpec { applies, ..two() }]), &format!("{others}{script}"));
}

/// After that time, calls that no scheduler granted would take places.
#[test]
fn an_unknown_call_is_counted_anew_for_one_lease_after_a_take_over() {
    let spec = resource(vec![two()]);
    let mut before = play(&spec, "0 allow a -> a@0");
    let after = crashed(&mut before, &spec, 300);
    play_on(
        after,
        "
        1300 extend a anew          -> a:extended
        1301 extend b anew          -> b:unknown_permit
        1301 levels                 -> requests=1
        # What was counted anew is known from then on.
        2200 extend a anew          -> a:extended
        ",
    );
}

#[test]
fn calls_counted_anew_may_exceed_the_limit_and_hold_all_requests() {
    let spec = resource(vec![two()]);
    let mut before = play(&spec, "0 allow a -> a@0\n 0 allow b -> b@0");
    let after = crashed(&mut before, &spec, 300);
    play_on(
        after,
        "
        400  extend a anew          -> a:extended
        500  extend b anew          -> b:extended
        600  levels                 -> requests=-2
        600  extend a               -> a:extended
        600  wait c                 ->
        # Its place counts until what its predecessor knew of is over.
        700  used a                 -> a:settled
        1000                        -> c@1000
        1100 used b                 -> b:settled
        1100 levels                 -> requests=1
        ",
    );
}

#[test]
fn a_call_without_its_request_or_without_places_is_not_counted() {
    let tokens = resource(vec![limit("requests", 10.0, span(1_000))]);
    play(&resource(vec![two()]), "0 extend a -> a:unknown_permit\n 0 levels -> requests=2");
    play(&tokens, "0 extend a anew -> a:unknown_permit\n 0 levels -> requests=10");
}

#[test]
fn a_returned_permit_stays_returned() {
    play(&resource(vec![two()]), "0 allow a -> a@0\n 0 unused a -> a:settled\n 0 extend a anew -> a:unknown_permit");
}

#[test]
fn a_scheduler_that_hands_over_counts_nothing_anew() {
    play(&resource(vec![two()]), "0 hand-over ->\n 0 extend a anew -> a:unavailable+0");
}

#[test]
fn a_call_is_counted_anew_for_its_key() {
    let world = play(
        &two_of_each(),
        "
        0    extend a anew guild:x requests=2   -> a:extended
        0    wait b guild:x                     ->
        0    wait c guild:y                     -> c@0
        500  used a                             -> a:settled b@500
        ",
    );
    drop(world);
}

#[test]
fn no_call_is_counted_anew_beyond_the_bound_of_permits() {
    let mut spec = resource(vec![two()]);
    spec.bounds.max_permits = 1;
    play(&spec, "0 allow a -> a@0\n 0 extend b anew -> b:queue_full+1000\n 0 levels -> requests=1");
}

/// The checkpoint covers one start. A place is given back only to a checkpoint that counted it.
#[test]
fn a_call_counted_anew_is_charged_to_the_checkpoint() {
    let mut world =
        World::of(Scheduler::new(Resource::new(&resource(vec![two()])).unwrap(), Epoch::FIRST, ms(0)).fenced());
    let checkpoint = world.scheduler.checkpoint(ms(0)).unwrap();
    world.handle(ms(0), Event::CheckpointStored(checkpoint.number));
    play_on(
        world,
        "
        0    extend a anew          -> a:extended
        0    used a                 -> a:settled
        0    allow b                -> b@0
        0    allow c                ->
        ",
    );
}

/// Four in flight, each for 20 s unless it is renewed.
fn four() -> ResourceSpec {
    resource(vec![LimitSpec { algorithm: Algorithm::Concurrency, ..limit("requests", 4.0, span(20_000)) }])
}

#[test]
fn a_successor_knows_until_when_renewed_calls_hold_their_places() {
    let mut before = play(
        &four(),
        "
        0     allow a requests=3     -> a@0
        0     allow b                -> b@0
        6000  extend a               -> a:extended
        6000  extend b               -> b:extended
        ",
    );
    let snapshot = before.scheduler.snapshot(ms(6_600), usize::MAX);
    play_on(
        World::of(Scheduler::restore(Resource::new(&four()).unwrap(), Epoch::new(2), ms(6_600), ms(6_600), &snapshot)),
        "
        6600  levels                 -> requests=0
        6600  used a                 -> a:settled
        6600  levels                 -> requests=3
        6600  allow c requests=3     -> c@6600
        25900 levels                 -> requests=0
        26000 levels                 -> requests=1
        ",
    );
}

/// A record without the ends of leases may make a call count for longer, and never for less.
#[test]
fn a_call_without_a_recorded_end_keeps_its_place() {
    let mut before = play(&four(), "0 allow a -> a@0\n 6000 extend a -> a:extended");
    let mut snapshot = before.scheduler.snapshot(ms(7_000), usize::MAX);
    snapshot.permits.iter_mut().for_each(|permit| permit.held_until.clear());
    play_on(
        World::of(Scheduler::restore(Resource::new(&four()).unwrap(), Epoch::new(2), ms(7_000), ms(7_000), &snapshot)),
        "
        7000  extend a               -> a:extended
        25000 levels                 -> requests=2
        26500 levels                 -> requests=3
        27000 levels                 -> requests=4
        ",
    );
}

#[test]
fn other_limits_leave_renewed_calls_their_ends() {
    let mut five = four();
    five.limits[0].capacity = amount(5.0);
    play_under(
        &four(),
        &[("five", five)],
        "
        0     allow a requests=4     -> a@0
        6000  extend a               -> a:extended
        7000  limits five            ->
        21000 levels                 -> requests=1
        21000 used a                 -> a:settled
        21000 levels                 -> requests=5
        ",
    );
}

#[test]
fn a_call_is_remembered_as_long_as_it_is_renewed() {
    let long = LimitSpec { algorithm: Algorithm::Concurrency, ..limit("requests", 2.0, span(900_000)) };
    play(
        &resource(vec![long]),
        "
        0       allow a              -> a@0
        600000  extend a             -> a:extended
        # The first lease is over for longer than an id is remembered behind it.
        1300000 extend a             -> a:extended
        2100000 extend a             -> a:extended
        2900000 extend a             -> a:extended
        2900000 levels               -> requests=1
        2900000 used a               -> a:settled
        ",
    );
}

/// Windows follow the wall clock; a call's duration does not.
#[test]
fn a_lease_does_not_end_earlier_for_a_successor_whose_clock_is_ahead() {
    let mut before = play(&four(), "0 allow a requests=4 -> a@0");
    let snapshot = Snapshot { permits: Vec::new(), ..before.scheduler.snapshot(ms(1_000), 0) };
    let ahead = Resource::new(&four()).unwrap().with_wall_clock(WallClockOrigin::from_unix_nanos(800_000_000));
    play_on(
        World::of(Scheduler::restore(ahead, Epoch::new(2), ms(1_000), ms(1_000), &snapshot)),
        "19900 levels -> requests=0\n 20000 levels -> requests=4",
    );
}

/// A crash leaves the number of places alone: one that the checkpoint knew, and two of its budget.
#[test]
fn settles_of_unknown_calls_free_the_places_that_a_crash_has_left() {
    let spec = resource(vec![LimitSpec { algorithm: Algorithm::Concurrency, ..limit("requests", 4.0, span(60_000)) }]);
    let mut before = World::of(Scheduler::new(Resource::new(&spec).unwrap(), Epoch::FIRST, ms(0)).fenced());
    let first = before.scheduler.checkpoint(ms(0)).unwrap();
    before.handle(ms(0), Event::CheckpointStored(first.number));
    let mut before = play_on(before, "10 allow a -> a@10");
    let state = before.scheduler.checkpoint(ms(20)).unwrap().state;
    let mut after = Scheduler::restore(Resource::new(&spec).unwrap(), Epoch::new(2), ms(300), ms(20), &state);
    after.lead_alone();
    play_on(
        World::of(after),
        "
        300    levels               -> requests=1
        300    used b               -> b:unknown_permit
        310    used b anew          -> b:settled
        # Once for each id.
        310    used b anew          -> b:settled
        310    levels               -> requests=2
        320    extend c anew        -> c:extended
        320    levels               -> requests=1
        # It was counted twice.
        330    used c               -> c:settled
        330    levels               -> requests=3
        335    unused d anew        -> d:settled
        340    allow f requests=4   -> f@340
        # No more than what the predecessor may have granted.
        340    unused g anew        -> g:unknown_permit
        340    levels               -> requests=0
        ",
    );
}

/// The lease of the call ends as the promised one begins, so that usage never falls.
#[test]
fn a_settle_after_a_crash_frees_no_place_that_is_promised() {
    let one = LimitSpec { algorithm: Algorithm::Concurrency, ..limit("requests", 1.0, span(60_000)) };
    let spec = resource(vec![one]);
    let mut before = play(&spec, "0 allow a -> a@0\n 0 reserve b -> b@60000");
    play_on(
        crashed(&mut before, &spec, 300),
        "
        310    used a anew          -> a:settled
        310    reserve c            -> c@120000
        60001  used b anew          -> b:settled
        60001  levels               -> requests=0
        ",
    );
}

/// Short calls, one after the other, need one place. The checkpoint counts one for the next of them, and
/// for a key that is not in use.
#[test]
fn a_crash_leaves_places_that_were_not_needed() {
    let ten = LimitSpec { algorithm: Algorithm::Concurrency, ..limit("requests", 10.0, span(60_000)) };
    let applies = Applies { key: vec!["guild".to_owned()], ..Applies::default() };
    for (limit, key) in [(ten.clone(), ""), (LimitSpec { applies, ..ten }, "guild:x")] {
        let spec = resource(vec![limit]);
        let mut world = World::of(Scheduler::new(Resource::new(&spec).unwrap(), Epoch::FIRST, ms(0)).fenced());
        for round in 0..3 {
            let now = 300 * round;
            let checkpoint = world.scheduler.checkpoint(ms(now)).unwrap();
            world.handle(ms(now), Event::CheckpointStored(checkpoint.number));
            let call = |at| format!("{at} allow a{at} {key} -> a{at}@{at}\n {} used a{at} -> a{at}:settled\n", at + 5);
            world = play_on(world, &(1..20).map(|call_number| call(now + 10 * call_number)).collect::<String>());
        }
        let state = world.scheduler.checkpoint(ms(900)).unwrap().state;
        let after = Scheduler::restore(Resource::new(&spec).unwrap(), Epoch::new(2), ms(950), ms(900), &state);
        play_on(
            World::of(after),
            &format!(
                "950 allow b {key} requests=8 -> b@950\n 950 allow c guild:y requests={} -> c@950\n",
                if key.is_empty() { 0 } else { 9 }
            ),
        );
    }
}

/// The predecessor may live, and hear the settle too: it gives the place to another call.
#[test]
fn a_settle_frees_no_inherited_place_while_the_predecessor_may_grant() {
    let spec = resource(vec![LimitSpec { algorithm: Algorithm::Concurrency, ..limit("requests", 4.0, span(60_000)) }]);
    let mut before = play(&spec, "0 allow a -> a@0\n 0 allow b -> b@0");
    let snapshot = Snapshot { permits: Vec::new(), ..before.scheduler.snapshot(ms(100), 0) };
    let after = Scheduler::restore(Resource::new(&spec).unwrap(), Epoch::new(2), ms(100), ms(100), &snapshot);
    play_on(
        World::of(after),
        "
        2600   used a anew          -> a:unknown_permit
        2601   used b anew          -> b:settled
        2601   levels               -> requests=3
        ",
    );
}

/// The settle of an unknown call frees the place whose lease ends first.
#[test]
fn a_place_stays_taken_as_long_as_any_call_may_hold_it() {
    let spec = resource(vec![two()]);
    let mut before = play(&spec, "0 allow a -> a@0\n 600 allow b -> b@600");
    play_on(
        crashed(&mut before, &spec, 700),
        "
        800    used b anew          -> b:settled
        800    levels               -> requests=1
        1100   levels               -> requests=1
        1600   levels               -> requests=2
        ",
    );
}

/// After a graceful stop, every call is known by its id.
#[test]
fn no_unknown_call_frees_the_place_of_a_known_one() {
    let spec = resource(vec![two()]);
    let mut before = play(&spec, "0 allow a -> a@0\n 600 allow b -> b@600");
    let snapshot = before.scheduler.snapshot(ms(700), 10);
    let after = Scheduler::restore(Resource::new(&spec).unwrap(), Epoch::new(2), ms(700), ms(700), &snapshot);
    play_on(
        World::of(after),
        "
        800    used x anew          -> x:unknown_permit
        800    used a               -> a:settled
        800    levels               -> requests=1
        ",
    );
}

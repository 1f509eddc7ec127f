//! Long calls in flight keep their places, even under a scheduler that started later than the
//! calls.

use crate::prelude::*;
use rampmeter_policy::spec::Bounds;

/// Two in flight, which end after a second unless they are renewed.
fn two() -> LimitSpec {
    counted(Algorithm::Concurrency, limit("requests", 2.0, span(1_000)))
}

/// Four in flight, each for this many seconds unless it is renewed.
fn four(secs: u64) -> ResourceSpec {
    resource(vec![counted(Algorithm::Concurrency, limit("requests", 4.0, Span::from_secs(secs)))])
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

    an_unknown_call_is_counted_anew(resource(vec![two()])): "
        0    allow a                -> a@0
        300  restart crash          ->
        300  levels                 -> requests=1
        # Once for what the predecessor knew, and once by its name.
        400  extend a anew          -> a:extended
        400  levels                 -> requests=0
        1000 levels                 -> requests=1
        1300 extend a anew          -> a:extended
        2200 levels                 -> requests=1
        2200 used a                 -> a:settled
        2200 levels                 -> requests=2
    "

    /// After that time, calls that no scheduler granted would take places.
    an_unknown_call_is_counted_anew_for_one_lease_after_a_take_over(resource(vec![two()])): "
        0    allow a                -> a@0
        300  restart crash          ->
        1300 extend a anew          -> a:extended
        1301 extend b anew          -> b:unknown_permit
        1301 levels                 -> requests=1
        # What was counted anew is known from then on.
        2200 extend a anew          -> a:extended
    "

    calls_counted_anew_may_exceed_the_limit_and_hold_all_requests(resource(vec![two()])): "
        0    allow a                -> a@0
        0    allow b                -> b@0
        300  restart crash          ->
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
    "

    no_call_is_counted_anew_beyond_the_bound_of_permits(
        ResourceSpec { bounds: Bounds { max_permits: 1, ..Bounds::default() }, ..resource(vec![two()]) }
    ): "
        0    allow a                -> a@0
        0    extend b anew          -> b:queue_full+1000
        0    levels                 -> requests=1
    "

    /// The checkpoint covers one start. A place is given back only to a checkpoint that counted it.
    a_call_counted_anew_is_charged_to_the_checkpoint(World::fenced(&resource(vec![two()]), ms(0))): "
        0    checkpoint             ->
        0    extend a anew          -> a:extended
        0    used a                 -> a:settled
        0    allow b                -> b@0
        0    allow c                ->
    "

    a_call_without_its_request_is_not_counted(resource(vec![two()])): "
        0    extend a               -> a:unknown_permit
        0    levels                 -> requests=2
    "

    a_call_without_places_is_not_counted(resource(vec![limit("requests", 10.0, span(1_000))])): "
        0    extend a anew          -> a:unknown_permit
        0    levels                 -> requests=10
    "

    a_returned_permit_stays_returned_and_a_scheduler_that_hands_over_counts_nothing_anew(resource(vec![two()])): "
        0    allow a                -> a@0
        0    unused a               -> a:settled
        0    extend a anew          -> a:unknown_permit
        0    hand-over              ->
        0    extend b anew          -> b:unavailable+0
    "

    a_call_is_counted_anew_for_its_key(resource(vec![by("guild", two())])): "
        0    extend a anew guild:x requests=2   -> a:extended
        0    wait b guild:x                     ->
        0    wait c guild:y                     -> c@0
        500  used a                             -> a:settled b@500
    "

    a_successor_knows_until_when_renewed_calls_hold_their_places(four(20)): "
        0     allow a requests=3     -> a@0
        0     allow b                -> b@0
        6000  extend a               -> a:extended
        6000  extend b               -> b:extended
        6600  restart                ->
        6600  levels                 -> requests=0
        6600  used a                 -> a:settled
        6600  levels                 -> requests=3
        6600  allow c requests=3     -> c@6600
        25900 levels                 -> requests=0
        26000 levels                 -> requests=1
    "

    other_limits_leave_renewed_calls_their_ends(
        four(20),
        "five": resource(vec![counted(Algorithm::Concurrency, limit("requests", 5.0, span(20_000)))])
    ): "
        0     allow a requests=4     -> a@0
        6000  extend a               -> a:extended
        7000  limits five            ->
        21000 levels                 -> requests=1
        21000 used a                 -> a:settled
        21000 levels                 -> requests=5
    "

    a_call_is_remembered_as_long_as_it_is_renewed(
        resource(vec![counted(Algorithm::Concurrency, limit("requests", 2.0, span(900_000)))])
    ): "
        0       allow a              -> a@0
        600000  extend a             -> a:extended
        # The first lease is over for longer than an id is remembered behind it.
        1300000 extend a             -> a:extended
        2100000 extend a             -> a:extended
        2900000 extend a             -> a:extended
        2900000 levels               -> requests=1
        2900000 used a               -> a:settled
    "

    /// The lease of the call ends as the promised one begins, so that usage never falls.
    a_settle_after_a_crash_frees_no_place_that_is_promised(
        resource(vec![counted(Algorithm::Concurrency, limit("requests", 1.0, span(60_000)))])
    ): "
        0      allow a              -> a@0
        0      reserve b            -> b@60000
        300    restart crash        ->
        310    used a anew          -> a:settled
        310    reserve c            -> c@120000
        60001  used b anew          -> b:settled
        60001  levels               -> requests=0
    "

    /// The predecessor may live, and hear the settle too: it gives the place to another call.
    a_settle_frees_no_inherited_place_while_the_predecessor_may_grant(four(60)): "
        0      allow a              -> a@0
        0      allow b              -> b@0
        100    restart permits=0    ->
        2600   used a anew          -> a:unknown_permit
        2601   used b anew          -> b:settled
        2601   levels               -> requests=3
    "

    /// The settle of an unknown call frees the place whose lease ends first.
    a_place_stays_taken_as_long_as_any_call_may_hold_it(resource(vec![two()])): "
        0      allow a              -> a@0
        600    allow b              -> b@600
        700    restart crash        ->
        800    used b anew          -> b:settled
        800    levels               -> requests=1
        1100   levels               -> requests=1
        1600   levels               -> requests=2
    "

    /// After a graceful stop, every call is known by its id.
    no_unknown_call_frees_the_place_of_a_known_one(resource(vec![two()])): "
        0      allow a              -> a@0
        600    allow b              -> b@600
        700    restart permits=10   ->
        800    used x anew          -> x:unknown_permit
        800    used a               -> a:settled
        800    levels               -> requests=1
    "
}

/// The bucket of a key knows no time since its last change.
#[test]
fn an_unknown_call_of_a_key_is_counted_anew_as_one_that_has_started() {
    // Each event looks at two keys.
    let others: String = (0..9).map(|key| format!("0 allow o{key} guild:{key} -> o{key}@0\n")).collect();
    let script = "
        0    allow a guild:x         -> a@0
        400  extend b anew guild:x   -> b:extended
        500  extend a                -> a:extended
        500  levels                  -> requests=0
        ";
    play(&resource(vec![by("guild", two())]), &format!("{others}{script}"));
}

/// A record without the ends of leases may make a call count for longer, and never for less.
#[test]
fn a_call_without_a_recorded_end_keeps_its_place() {
    let mut before = play(&four(20), "0 allow a -> a@0\n 6000 extend a -> a:extended");
    let mut snapshot = before.scheduler.snapshot(ms(7_000), usize::MAX);
    snapshot.permits.iter_mut().for_each(|permit| permit.held_until.clear());
    play_on(
        World::restored(&four(20), ms(7_000), ms(7_000), &snapshot),
        "
        7000  extend a               -> a:extended
        25000 levels                 -> requests=2
        26500 levels                 -> requests=3
        27000 levels                 -> requests=4
        ",
    );
}

/// Windows follow the wall clock; a call's duration does not.
#[test]
fn a_lease_does_not_end_earlier_for_a_successor_whose_clock_is_ahead() {
    let mut before = play(&four(20), "0 allow a requests=4 -> a@0");
    let snapshot = Snapshot { permits: Vec::new(), ..before.scheduler.snapshot(ms(1_000), 0) };
    let ahead = Resource::new(&four(20)).unwrap().with_wall_clock(WallClockOrigin::from_unix_nanos(800_000_000));
    play_on(
        World::of(Scheduler::restore(ahead, Epoch::new(2), ms(1_000), ms(1_000), &snapshot)),
        "19900 levels -> requests=0\n 20000 levels -> requests=4",
    );
}

/// A crash leaves the number of places alone: one that the checkpoint knew, and two of its budget.
#[test]
fn settles_of_unknown_calls_free_the_places_that_a_crash_has_left() {
    let spec = four(60);
    let mut before = play_on(World::fenced(&spec, ms(0)), "0 checkpoint ->\n 10 allow a -> a@10");
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

/// Short calls, one after the other, need one place. The checkpoint counts one for the next of them, and
/// for a key that is not in use.
#[test]
fn a_crash_leaves_places_that_were_not_needed() {
    let ten = counted(Algorithm::Concurrency, limit("requests", 10.0, span(60_000)));
    for (limit, key) in [(ten.clone(), ""), (by("guild", ten), "guild:x")] {
        let spec = resource(vec![limit]);
        let mut world = World::fenced(&spec, ms(0));
        for round in 0..3 {
            let now = 300 * round;
            world.checkpointed(ms(now));
            let call = |at| format!("{at} allow a{at} {key} -> a{at}@{at}\n {} used a{at} -> a{at}:settled\n", at + 5);
            world = play_on(world, &(1..20).map(|call_number| call(now + 10 * call_number)).collect::<String>());
        }
        let state = world.scheduler.checkpoint(ms(900)).unwrap().state;
        let after = World::restored(&spec, ms(950), ms(900), &state);
        play_on(
            after,
            &format!(
                "950 allow b {key} requests=8 -> b@950\n 950 allow c guild:y requests={} -> c@950\n",
                if key.is_empty() { 0 } else { 9 }
            ),
        );
    }
}

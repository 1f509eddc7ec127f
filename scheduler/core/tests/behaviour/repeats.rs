//! Permits have ids: a repeated request gets the same answer and is charged once.

use crate::prelude::*;
use rampmeter_policy::refusal::Bounded;
use rampmeter_policy::spec::{Bounds, MAX_IDLE_PERMITS};

fn bounded(max_waiting: usize, max_permits: usize) -> ResourceSpec {
    ResourceSpec {
        bounds: Bounds { max_waiting, max_permits, ..Bounds::default() },
        ..with_bulk(ten_per_second(), 0.0)
    }
}

scripts! {
    the_same_id_gets_the_same_start_and_is_charged_once(ten_per_second()): "
        0    reserve a requests=10               -> a@0
        0    reserve b requests=5                -> b@500
        0    levels                              -> requests=-5
        # Whatever else it says now.
        0    reserve b                           -> b@500
        200  allow b requests=5                  -> b@500
        300  wait b within=1                     -> b@500
        400  levels                              -> requests=-1
        550  reserve b                           -> b@550
        700  levels                              -> requests=2
    "

    /// Two hosts choose the same id. If both got the permit, one of their calls would not be charged.
    an_id_in_use_is_refused_to_another_request(with_bulk(ten_per_second(), 0.0)): "
        0    reserve a from=x requests=10        -> a@0
        0    reserve b from=x requests=1 class=urgent guild:f -> b@100
        0    reserve b from=y                    -> b:id_in_use
        0    reserve b from=x requests=2         -> b:id_in_use
        0    reserve b from=x class=bulk         -> b:id_in_use
        0    reserve b from=x guild:g            -> b:id_in_use
        0    levels                              -> requests=-1
        # The same again, and what one of both does not state.
        0    wait b from=x                       -> b@100
        0    reserve b                           -> b@100
        # A place in line, a lapsed start and a call that was settled or given back.
        0    wait c from=x                       ->
        0    wait c from=y                       -> c:id_in_use
        0    wait c from=x                       ->
        60   reserve a from=y                    -> a:id_in_use
        60   reserve a from=x requests=10        -> a:lapsed
        100  unused b                            -> b:settled c@100
        100  reserve b from=y                    -> b:unknown_permit
    "

    /// A successor does not know a request's sender and content. The first repetition tells these.
    a_successor_takes_the_first_repetition_for_the_request(ten_per_second()): "
        0    reserve a from=x requests=10        -> a@0
        0    reserve b from=x                    -> b@100
        0    restart                             ->
        0    reserve b from=x                    -> b@100
        0    reserve b from=y                    -> b:id_in_use
    "

    /// A start is told again as long as the margin covers the lateness of its call.
    an_id_whose_start_is_past_and_was_not_used_is_refused_as_lapsed(ten_per_second()): "
        0     reserve a requests=10              -> a@0
        0     reserve b                          -> b@100
        0     reserve c                          -> c@200
        50    reserve a                          -> a@50
        51    reserve a                          -> a:lapsed
        51    allow a                            -> a:lapsed
        51    wait a                             -> a:lapsed
        150   reserve b                          -> b@150
        151   reserve b                          -> b:lapsed
        # Another call of one that is settled would be charged to no limit.
        200   used c                             -> c:settled
        200   reserve c                          -> c:already_settled
        900   wait c                             -> c:already_settled
        # What lapses stays charged, for its call may have been made, until it is known that it was not.
        900   levels                             -> requests=7
        900   unused b                           -> b:settled
        900   levels                             -> requests=8
        900   reserve b                          -> b:unknown_permit
    "

    /// The id gets no second start, which would keep the stock that the first one returns.
    a_lapsed_permit_is_given_back_at_what_is_left_of_it(resource(vec![limit("units", 100.0, span(10_000))])): "
        0     reserve p units=100                -> p@0
        5000  reserve q units=50                 -> q@5000
        6000  reserve p units=100                -> p:lapsed
        7000  unused p                           -> p:settled
        7000  levels                             -> units=70
        7000  reserve r units=80                 -> r@8000
    "

    a_call_in_flight_keeps_its_place_when_its_id_is_asked_for_again_and_refused(
        resource(vec![
            counted(Algorithm::Concurrency, limit("requests", 1.0, span(60_000))),
            limit("units", 10.0, span(100_000)),
        ])
    ): "
        0     reserve a units=10                 -> a@0
        6000  allow a                            -> a:lapsed
        6000  levels                             -> requests=0 units=0.6
        6000  extend a                           -> a:extended
        6000  unused a                           -> a:settled
        6000  levels                             -> requests=1 units=10
    "

    answers_that_wait_for_the_store_are_bounded(World::fenced(&bounded(2, 100), Time::ORIGIN)): "
        0    reserve a                           ->
        0    reserve b                           ->
        0    reserve c                           -> c:queue_full+1000
    "

    a_returned_permit_is_not_granted_again(ten_per_second()): "
        0    reserve first requests=10           -> first@0
        0    reserve future                      -> future@100
        0    wait waiting                        ->
        0    unused future                       -> future:settled
        0    unused waiting                      -> waiting:unknown_permit waiting:settled
        0    unused first                        -> first:settled
        0    reserve future                      -> future:unknown_permit
        0    wait waiting                        -> waiting:unknown_permit
        0    allow first                         -> first:unknown_permit
        0    levels                              -> requests=10
    "
}

#[test]
fn a_repeated_waiting_request_is_answered_once_at_its_last_address() {
    play(
        &ten_per_second(),
        "
        0    reserve first requests=10           -> first@0
        0    wait a                              ->
        0    wait b progress                     -> b#1~200
        10   wait a                              ->
        20   wait a progress                     -> a#0~80
        20   wait b                              ->
        50                                       -> a@100
        150                                      -> b@200
        200  levels                              -> requests=0
        ",
    );
    let mut world = World::new(&ten_per_second());
    world.ask(ms(0), &wish(Mode::Wait, &[("requests", 10.0)]));
    let [before, after] = [0, 10].map(|at| world.ask(ms(at), &wish(Mode::Wait, &[]).named("a")));
    world.run_until(ms(1000));
    assert_eq!(world.last_answer(before), None);
    assert_eq!(world.start(after), Some(ms(100)));
}

#[test]
fn ids_are_known_for_five_minutes_after_the_start() {
    let world = play(
        &ten_per_second(),
        "
        1000    reserve a requests=10            -> a@1000
        1000    reserve b requests=10            -> b@2000
        1000    reserve c                        -> c@2100
        1500    unused c                         -> c:settled
        2500    used a                           -> a:settled
        2500    used b                           -> b:settled
        300999  allow a                          -> a:already_settled
        # Forgotten, it is a new request. The other ids stay known.
        301000  allow a requests=10              -> a@301000
        301000  allow b                          -> b:already_settled
        301000  levels                           -> requests=0
        # What was given back is known for as long after that.
        301499  allow c                          -> c:unknown_permit
        303000  allow c                          -> c@303000
        600999  extend a                         -> a:extended
        601000  extend a                         -> a:unknown_permit
        ",
    );
    assert_eq!(world.scheduler.remembered(), 1);
}

#[test]
fn waiting_requests_are_bounded() {
    let world = play(
        &bounded(2, 100),
        "
        0    reserve a requests=10               -> a@0
        0    wait b                              ->
        0    wait c class=bulk                   ->
        0    wait d                              -> d:queue_full+1000
        0    wait d class=bulk                   -> d:queue_full+1000
        # A waiting request may be repeated; requests that do not wait are not concerned.
        0    wait b                              ->
        0    reserve e                           -> e@200
        50                                       -> b@100
        50   wait d                              ->
        ",
    );
    assert_eq!(world.scheduler.waiting(), 2);
    assert_eq!(world.scheduler.remembered(), 5);
}

#[test]
fn no_client_fills_the_queue_alone() {
    let keyed = ResourceSpec { limits: vec![keyed("requests", 10.0, 1000, &["client"])], ..bounded(10, 100) };
    let shared = shared(bounded(10, 100), &[]);
    let used = [
        "0 reserve a client:x requests=10 -> a@0\n 0 reserve b client:y requests=10 -> b@0",
        "0 reserve a requests=10 -> a@0",
    ];
    let script = "
        0    wait c1 client?x      ->
        0    wait c2 client?x      ->
        0    wait c3 client?x      ->
        0    wait c4 client?x      ->
        0    wait c5 client?x      ->
        # Five wait, and as many places are free.
        0    wait d client?x       -> d:queue_full+1000
        0    wait e client?y       ->
        0    wait d client?x       -> d:queue_full+1000
        0    wait f client?y       ->
        0    wait g client?y       ->
        0    wait h client?y       -> h:queue_full+1000
        # A request that leaves makes room.
        0    unused e              -> e:unknown_permit e:settled
        0    wait h client?y       ->
        ";
    for (spec, used, says) in [(&keyed, used[0], ":"), (&shared, used[1], "=")] {
        play_on(play(spec, used), &script.replace('?', says));
    }
}

/// A user has twice the free places, whatever clients its requests name.
#[test]
fn no_user_fills_the_queue_with_new_clients() {
    let spec = shared(bounded(10, 100), &[]);
    let script = "
        0    reserve a requests=10       -> a@0
        0    wait c1 user=x client=1     ->
        0    wait c2 user=x client=2     ->
        0    wait c3 user=x client=3     ->
        0    wait c4 user=x client=4     ->
        0    wait c5 user=x client=5     ->
        0    wait c6 user=x client=6     ->
        0    wait c7 user=x client=7     ->
        0    wait d user=x client=8      -> d:queue_full+1000
        0    wait e1 user=y client=9     ->
        0    wait e2 user=y client=9     ->
        0    wait f user=y client=9      -> f:queue_full+1000
        # One of its quiet clients, and one user who is not known.
        0    unused c7                   -> c7:unknown_permit c7:settled
        0    wait f user=y client=10     ->
        0    wait g                      ->
        ";
    play(&spec, script);
}

#[test]
fn the_refusal_at_a_bound_names_it() {
    let mut world = play(&bounded(1, 1), "0 reserve a requests=10 -> a@0");
    let table = [
        (Mode::Reserve, Refusal::BoundReached { what: Bounded::Remembered, bound: 1 }),
        (Mode::Wait, Refusal::BoundReached { what: Bounded::Remembered, bound: 1 }),
    ];
    for (mode, refusal) in table {
        assert_eq!(refusal.retry_after(), Some(span(1000)));
        let asked = world.ask(ms(10), &wish(mode, &[]));
        assert_eq!(world.last_answer(asked), Some(SentAnswer::Refused(refusal)));
    }
    let mut world = play(
        &bounded(1, 3),
        "
        0  reserve a requests=10  -> a@0
        0  wait b                 ->
        ",
    );
    let asked = world.ask(ms(10), &wish(Mode::Wait, &[]));
    let refusal = Refusal::BoundReached { what: Bounded::Waiting, bound: 1 };
    assert_eq!(world.last_answer(asked), Some(SentAnswer::Refused(refusal)));
}

#[test]
fn remembered_permits_are_bounded_and_kept_for_a_minute_at_least() {
    let mut world = play(
        &bounded(100, 3),
        "
        0      allow a                           -> a@0
        1000   allow b                           -> b@1000
        1000   allow c                           -> c@1000
        1000   allow d                           -> d:queue_full+1000
        1000   wait d                            -> d:queue_full+1000
        1000   levels                            -> requests=8
        59999  allow d                           -> d:queue_full+1000
        # A known id is not one more.
        59999  allow b                           -> b:lapsed
        60000  allow d                           -> d@60000
        60000  allow e                           -> e:queue_full+1000
        61000  allow e                           -> e@61000
        61000  allow f                           -> f@61000
        61000  unused a                          -> a:unknown_permit
        61000  unused b                          -> b:unknown_permit
        ",
    );
    assert_eq!(world.scheduler.remembered(), 3);
    // A waiting request, or one with a later start, is never forgotten.
    world = play_on(
        World::new(&bounded(100, 3)),
        "
        0      allow a requests=10               -> a@0
        0      wait b                            ->
        0      reserve c requests=10             -> c@1100
        60000  allow d                           -> b@100 d@60000
        60000  allow e                           -> e:queue_full+1000
        ",
    );
    assert_eq!(world.settle(ms(60_000), "c", Outcome::Unused), SentAnswer::Settled);
    assert_eq!(world.scheduler.remembered(), 3);
}

#[test]
fn returned_permits_leave_their_places_to_others() {
    let world = play(
        &bounded(100, 2),
        "
        0      reserve a                         -> a@0
        0      reserve b requests=20             -> b:never_fits
        0      reserve b requests=10             -> b@100
        0      reserve c                         -> c:queue_full+1000
        0      unused b                          -> b:settled
        0      unused b                          -> b:settled
        0      wait c                            -> c@0
        0      reserve d                         -> d:queue_full+1000
        # Free permits take places, too.
        0      allow free requests=0             -> free:queue_full+1000
        10     reserve b                         -> b:unknown_permit
        # All are forgotten in their time.
        300010 reserve b                         -> b@300010
        300010 unused b                          -> b:settled
        600010 levels                            -> requests=10
        ",
    );
    assert_eq!(world.scheduler.remembered(), 0);
}

#[test]
fn a_permit_started_with_returned_stock_is_forgotten_in_time() {
    let world = play(
        &ten_per_second(),
        "
        0      reserve a                         -> a@0
        0      reserve b                         -> b@0
        0      reserve c                         -> c@0
        0      reserve d                         -> d@0
        0      reserve e                         -> e@0
        0      unused c                          -> c:settled
        0      unused e                          -> e:settled
        0      unused b                          -> b:settled
        299999 reserve a                         -> a:lapsed
        299999 reserve d                         -> d:lapsed
        300000 reserve a                         -> a@300000
        ",
    );
    assert_eq!(world.scheduler.remembered(), 1);
}

/// Beyond the bound, the oldest permit is forgotten. Its id then counts as new, and a late request
/// is charged.
#[test]
fn ids_that_were_given_back_are_bounded() {
    let mut world = World::new(&bounded(100, 2));
    for serial in 0..=MAX_IDLE_PERMITS as u64 {
        let id = PermitId::secret(serial.into());
        world.ask(ms(0), &wish(Mode::Reserve, &[]).named(id.as_str()));
        world.settle(ms(0), id.as_str(), Outcome::Unused);
    }
    assert_eq!(world.scheduler.remembered(), MAX_IDLE_PERMITS);
    let [oldest, next] = [0_u64, 1].map(|serial| {
        let asked = world.ask(ms(0), &wish(Mode::Allow, &[]).named(PermitId::secret(serial.into()).as_str()));
        world.last_answer(asked)
    });
    assert_eq!(oldest, Some(SentAnswer::Granted(Span::ZERO)));
    assert_eq!(next, Some(SentAnswer::Refused(Refusal::UnknownPermit)));
}

#[test]
fn permits_of_the_first_second_are_not_forgotten_to_meet_a_bound() {
    let mut world = World::new(&bounded(10, 1));
    world.ask(Time::ORIGIN, &wish(Mode::Allow, &[]).named("a"));
    let other = world.ask(Time::ORIGIN, &wish(Mode::Allow, &[]).named("b"));
    assert!(matches!(world.last_answer(other), Some(SentAnswer::Refused(Refusal::BoundReached { .. }))));
}

//! Permits have names: who asks again gets the same answer and is charged once.

use crate::common::{Said, World, limit, ms, play, play_on, resource, span, ten_per_second, wish, with_bulk};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::bill::Bill;
use rampmeter_scheduler_core::command::Command;
use rampmeter_scheduler_core::event::{Ask, Event, Outcome};
use rampmeter_scheduler_core::refusal::Refusal;
use rampmeter_scheduler_core::spec::{Applies, Bounds, LimitSpec, ResourceSpec};

#[test]
fn the_same_id_gets_the_same_start_and_is_charged_once() {
    play(
        &ten_per_second(),
        "
        0    reserve a requests=10               -> a@0
        0    reserve b requests=5                -> b@500
        0    levels                              -> requests=-5
        # Whatever else it says now.
        0    reserve b                           -> b@500
        200  allow b requests=5                  -> b@500
        300  wait b within=1                     -> b@500
        400  levels                              -> requests=-1
        # Its start is past: now.
        700  reserve b                           -> b@700
        700  levels                              -> requests=2
        ",
    );
}

/// A permit lapses five seconds after its start. Who asks again has not heard of it.
#[test]
fn a_lapsed_permit_is_given_another_start_and_charged_once() {
    play(
        &ten_per_second(),
        "
        # The tokens that it did not take were there all the time, in a bucket that never ran over.
        0     reserve a requests=2               -> a@0
        0     reserve b requests=8               -> b@0
        0     reserve c1 requests=8      -> c1@800
        0     reserve c2 requests=8      -> c2@1600
        0     reserve c3 requests=8      -> c3@2400
        0     reserve c4 requests=8      -> c4@3200
        0     reserve c5 requests=8      -> c5@4000
        0     reserve c6 requests=8      -> c6@4800
        5500  levels                             -> requests=7
        5500  reserve a                          -> a@5500
        5500  levels                             -> requests=7
        # What has run over meanwhile for its sake is lost at the upstream.
        20000 reserve c requests=3               -> c@20000
        20000 levels                             -> requests=7
        25001 reserve c                          -> c@25001
        25001 levels                             -> requests=7
        # One that was settled was used.
        30000 reserve d                          -> d@30000
        30000 used d                             -> d:settled
        36000 reserve d                          -> d@36000
        36000 levels                             -> requests=10
        # One that was given another start comes back whole.
        40000 reserve e requests=4               -> e@40000
        45001 reserve e                          -> e@45001
        45001 unused e                           -> e:settled
        45001 levels                             -> requests=10
        ",
    );
}

/// Until its other start, which another limit puts off, more of what it was charged for runs over.
#[test]
fn a_lapsed_permit_that_starts_only_later_is_charged_again() {
    let limits = ["units", "more"].map(|unit| limit(unit, 10.0, span(10_000)));
    play(
        &resource(limits.into()),
        "
        0     reserve a units=8 more=1           -> a@0
        5500  reserve b more=10                  -> b@5500
        6000  reserve a                          -> a@6500
        6500  levels                             -> units=0.5 more=0
        ",
    );
}

/// Each of two would have fitted into the bucket all the time, and both together would not.
#[test]
fn lapsed_permits_are_given_other_starts_together() {
    play(
        &ten_per_second(),
        "
        0     reserve a requests=3               -> a@0
        0     reserve b requests=3               -> b@0
        0     reserve d1 requests=7      -> d1@300
        0     reserve d2 requests=7      -> d2@1000
        0     reserve d3 requests=7      -> d3@1700
        0     reserve d4 requests=7      -> d4@2400
        0     reserve d5 requests=7      -> d5@3100
        0     reserve d6 requests=7      -> d6@3800
        0     reserve d7 requests=7      -> d7@4500
        0     reserve d8 requests=7      -> d8@5200
        0     reserve d9 requests=7      -> d9@5900
        6000  reserve a                          -> a@6000
        6000  levels                             -> requests=1
        6000  reserve b                          -> b@6200
        6200  levels                             -> requests=0
        ",
    );
}

#[test]
fn who_waits_and_asks_again_is_answered_once_where_it_asked_last() {
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
    assert_eq!(world.said(before), None);
    assert_eq!(world.start(after), Some(ms(100)));
}

#[test]
fn what_was_given_back_is_not_granted_again() {
    play(
        &ten_per_second(),
        "
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
        ",
    );
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
        300999  allow a                          -> a@300999
        # Forgotten, it is a new request. The others are known still.
        301000  allow a requests=10              -> a@301000
        301000  allow b                          -> b@301000
        301000  levels                           -> requests=0
        302099  allow c                          -> c:unknown_permit
        303000  allow c                          -> c@303000
        600999  extend a                         -> a:settled
        601000  extend a                         -> a:unknown_permit
        ",
    );
    assert_eq!(world.scheduler.remembered(), 1);
}

/// Asks without an id, and returns the id that was made up.
fn ask_without_id(world: &mut World, bill: &Bill) -> PermitId {
    let class = world.scheduler.resource().default_class();
    let mode = Mode::Reserve;
    let ask = Ask {
        to: 0,
        id: None,
        bill: bill.clone(),
        class,
        mode,
        max_wait: None,
        age: Span::ZERO,
        progress: false,
        client: None,
        call: None,
    };
    world.scheduler.handle(ms(0), Event::Ask(ask));
    match world.scheduler.poll_command() {
        Some(Command::Grant(grant)) => grant.id,
        other => panic!("not granted: {other:?}"),
    }
}

#[test]
fn made_up_ids_are_nobody_elses() {
    let mut world = World::new(&ten_per_second());
    // Somebody has chosen just the names that will come.
    let given: Vec<PermitId> = (100..140).map(|serial| PermitId::generated(1, serial)).collect();
    for id in &given {
        world.ask(ms(0), &wish(Mode::Reserve, &[]).named(id.as_str()));
    }
    let bill = world.scheduler.resource().bill(&Labels::new(), [].into_iter()).unwrap();
    let mut ids = given;
    ids.extend((0..100).map(|_| ask_without_id(&mut world, &bill)));
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert_eq!(world.scheduler.remembered(), count);
}

fn bounded(max_waiting: usize, max_permits: usize) -> ResourceSpec {
    ResourceSpec {
        bounds: Bounds { max_waiting, max_permits, ..Bounds::default() },
        ..with_bulk(ten_per_second(), 0.0)
    }
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
        # Who waits already may ask again, and who does not wait is not concerned.
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
fn nobody_fills_the_line_alone() {
    let key = Applies { key: vec!["client".to_owned()], ..Applies::default() };
    let limit = |key: &Applies| LimitSpec { applies: key.clone(), ..ten_per_second().limits[0].clone() };
    let keyed = ResourceSpec { limits: vec![limit(&key)], ..bounded(10, 100) };
    let shared = crate::common::shared(bounded(10, 100), &[]);
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
        0    wait c6 client?x      ->
        0    wait c7 client?x      ->
        0    wait c8 client?x      ->
        # Eight wait, four times as many as are free.
        0    wait d client?x       -> d:queue_full+1000
        0    wait e client?y       ->
        0    wait d client?x       -> d:queue_full+1000
        0    wait f client?y       ->
        0    wait g client?y       -> g:queue_full+1000
        # Whoever leaves makes room.
        0    unused c8             -> c8:unknown_permit c8:settled
        0    wait g client?y       ->
        ";
    for (spec, used, says) in [(&keyed, used[0], ":"), (&shared, used[1], "=")] {
        play_on(play(spec, used), &script.replace('?', says));
    }
}

#[test]
fn the_refusal_at_a_bound_names_it() {
    let mut world = play(&bounded(0, 1), "0 reserve a requests=10 -> a@0");
    let table = [
        (Mode::Reserve, Refusal::QueueFull { what: "remembered permits", bound: 1, retry_after: span(1000) }),
        (Mode::Wait, Refusal::QueueFull { what: "remembered permits", bound: 1, retry_after: span(1000) }),
    ];
    for (mode, refusal) in table {
        let asked = world.ask(ms(10), &wish(mode, &[]));
        assert_eq!(world.said(asked), Some(Said::Refused(refusal)));
    }
    let mut world = play(&bounded(0, 2), "0 reserve a requests=10 -> a@0");
    let asked = world.ask(ms(10), &wish(Mode::Wait, &[]));
    let refusal = Refusal::QueueFull { what: "waiting requests", bound: 0, retry_after: span(1000) };
    assert_eq!(world.said(asked), Some(Said::Refused(refusal)));
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
        59999  allow b                           -> b@59999
        60000  allow d                           -> d@60000
        60000  allow e                           -> e:queue_full+1000
        61000  allow e                           -> e@61000
        61000  allow f                           -> f@61000
        61000  unused a                          -> a:unknown_permit
        61000  unused b                          -> b:unknown_permit
        ",
    );
    assert_eq!(world.scheduler.remembered(), 3);
    // Who waits, or starts later, is not forgotten however long that takes.
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
    assert_eq!(world.settle(ms(60_000), "c", Outcome::Unused), Said::Settled);
    assert_eq!(world.scheduler.remembered(), 3);
}

#[test]
fn a_bound_is_not_met_by_forgetting_the_first_second() {
    let mut world = World::new(&bounded(10, 1));
    world.ask(Time::ORIGIN, &wish(Mode::Allow, &[]).named("a"));
    let other = world.ask(Time::ORIGIN, &wish(Mode::Allow, &[]).named("b"));
    assert!(matches!(world.said(other), Some(Said::Refused(Refusal::QueueFull { .. }))));
}

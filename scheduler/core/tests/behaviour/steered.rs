//! Limits whose capacities in force the driver steers, and limits that begin with what is left.

use crate::prelude::*;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::observation::Reading;

/// Ten requests a second, of which an eighth is in force at first.
fn steered() -> ResourceSpec {
    let learn = Learn::Steered(amount(1.25));
    resource(vec![LimitSpec { learn, ..limit("requests", 10.0, span(1000)) }])
}

fn of_steered(world: &World) -> LimitId {
    world.scheduler.resource().limit("requests").unwrap()
}

/// When `count` reservations of one request start.
fn starts(world: &mut World, now: Time, count: usize) -> Vec<f64> {
    let mut start = || {
        let number = world.ask(now, &wish(Mode::Reserve, &[]));
        world.start(number).unwrap().since(now).millis()
    };
    (0..count).map(|_| start()).collect()
}

/// Settles a call that was made at the beginning, and returns the limits that are paused after it.
fn paused_by(verdict: Verdict, readings: Vec<Reading>) -> (World, usize) {
    let mut world = World::new(&steered());
    world.ask(ms(0), &wish(Mode::Reserve, &[]).named("call"));
    world.settle_answered(ms(100), "call", Observation { readings, ..said(verdict) });
    let paused = world.scheduler.paused(ms(100), None).len();
    (world, paused)
}

#[test]
fn a_steered_capacity_is_in_force_from_the_beginning() {
    let mut world = World::new(&steered());
    assert_eq!(world.scheduler.capacity_in_force(of_steered(&world)), Some(amount(1.25)));
    assert_eq!(starts(&mut world, ms(0), 3), [0.0, 600.0, 1400.0]);
}

#[test]
fn the_driver_changes_a_steered_capacity() {
    let mut world = World::new(&steered());
    let waiting = [0, 1, 2].map(|_| world.ask(ms(0), &wish(Mode::Wait, &[])));
    world.handle(ms(0), Event::Capacity { limit: of_steered(&world), capacity: amount(10.0) });
    world.run_until(ms(1000));
    assert_eq!(waiting.map(|number| world.start(number)), [0, 75, 175].map(|at| Some(ms(at))));
}

#[test]
fn no_cost_is_too_large_for_a_steered_limit() {
    let mut world = World::new(&steered());
    let number = world.ask(ms(0), &wish(Mode::Reserve, &[("requests", 20.0)]));
    assert!(world.start(number).is_some());
}

#[test]
fn a_refusal_about_another_unit_does_not_blame_a_steered_limit() {
    assert_eq!(
        paused_by(
            Verdict::Limited { scope: Scope::Unit("points".to_owned()), retry_after: None, by_other_accounts: false },
            Vec::new()
        )
        .1,
        0
    );
    assert_eq!(paused_by(limited(None), Vec::new()).1, 1);
}

#[test]
fn no_reading_is_about_a_steered_limit() {
    let none_left = Reading::new(Scope::Unnamed, amount(0.0));
    let level = |readings| paused_by(Verdict::Passed, readings).0.scheduler.limit_status(ms(100))[0].level;
    assert_eq!(level(vec![none_left]), level(Vec::new()));
}

#[test]
fn a_crowded_call_is_charged_nothing_and_pauses_nothing() {
    let (mut world, paused) = paused_by(Verdict::Crowded, Vec::new());
    assert_eq!((paused, world.scheduler.limit_status(ms(100))[0].level), (0, 1.25));
    let (mut world, paused) = paused_by(Verdict::Busy, Vec::new());
    assert_eq!((paused, world.scheduler.limit_status(ms(100))[0].level), (0, 0.375));
}

#[test]
fn new_limits_begin_with_what_is_left_of_them() {
    let mut world = World::new(&resource(vec![limit("requests", 10.0, span(1000))]));
    let limits = vec![
        limit("requests", 10.0, span(1000)),
        limit("left", 10.0, span(10_000)),
        limit("full", 10.0, span(10_000)),
        by("client", limit("keyed", 10.0, span(10_000))),
    ];
    let changed = Resource::new(&resource(limits)).unwrap();
    let left = [("requests", 1.0), ("left", 4.0), ("left", 9.0), ("full", 20.0), ("keyed", 1.0), ("unknown", 1.0)];
    let left = left.map(|(limit, units)| (name(limit), amount(units))).into();
    world.handle(ms(0), Event::Discovered { resource: Box::new(changed), left });
    let levels: Vec<f64> = world.scheduler.limit_status(ms(0)).iter().map(|limit| limit.level).collect();
    assert_eq!(levels, [10.0, 4.0, 10.0, 10.0]);
}

//! How many workers the limits can feed, and how many calls are in flight.

use crate::prelude::*;
use rampmeter_scheduler_core::command::Note;

const SECOND: Span = Span::from_secs(1);

/// A world in which ten calls have been served one after the other. Each took `millis` and cost
/// `cost`.
fn served(spec: &ResourceSpec, millis: u64, cost: &[(&str, f64)]) -> World {
    let mut world = World::new(spec);
    for number in 0..10 {
        let (start, id) = (ms(number * 2000), format!("call-{number}"));
        let asked = Wish { labels: vec![("client", "x")], ..wish(Mode::Wait, cost) };
        world.ask(start, &asked.named(&id));
        let actual = cost.iter().map(|(unit, units)| ((*unit).to_owned(), amount(*units))).collect();
        world.settle(start + span(millis), &id, Outcome::Used(actual));
    }
    world
}

fn named(called: &str, spec: LimitSpec) -> LimitSpec {
    LimitSpec { name: name(called), ..spec }
}

#[test]
fn useful_workers_are_the_rate_times_the_time_of_a_call() {
    let rate = || limit("requests", 10.0, SECOND);
    let units = limit("units", 100.0, span(10_000));
    let of = |algorithm| counted(algorithm, limit("units", 3.0, span(1_000_000)));
    let places = named("places", counted(Algorithm::Concurrency, limit("requests", 4.0, span(60_000))));
    let keyed = by("client", rate());
    let one = &[("requests", 1.0)][..];
    #[rustfmt::skip]
    let table = [
        ("ten a second",             vec![rate()],                      300,  one,                                 Some(3.0)),
        ("each call counts twice",   vec![rate()],                      300,  &[("requests", 2.0)],                Some(1.5)),
        ("units are scarcer",        vec![rate(), units],               300,  &[("requests", 1.0), ("units", 5.0)], Some(0.6)),
        ("places are scarcer",       vec![rate(), places.clone()],      1000, one,                                 Some(4.0)),
        ("calls are short",          vec![rate(), places],              100,  one,                                 Some(1.0)),
        ("a quota sets no pace",     vec![rate(), of(Algorithm::Quota(None))], 300, &[("requests", 1.0), ("units", 0.1)], Some(3.0)),
        ("keys have no bound",       vec![keyed],                       300,  one,                                 None),
    ];
    for (what, limits, millis, cost, expected) in table {
        let world = served(&resource(limits), millis, cost);
        let found = world.scheduler.useful_workers(ms(30_000)).map(|workers| (workers * 1e6).round() / 1e6);
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn before_a_call_has_told_its_time_nothing_is_known() {
    let mut world = World::new(&ten_per_second());
    assert_eq!(world.scheduler.useful_workers(ms(0)), None);
    world.ask(ms(0), &wish(Mode::Wait, &[("requests", 1.0)]).named("a"));
    assert_eq!(world.scheduler.useful_workers(ms(100)), None);
    world.settle(ms(200), "a", Outcome::Used(Vec::new()));
    assert_eq!(world.scheduler.useful_workers(ms(200)), Some(2.0));
}

/// The world of ten calls of 300 ms, with one more that the upstream answers at once with this
/// verdict.
fn answered(limits: Vec<LimitSpec>, cost: &[(&str, f64)], verdict: Verdict) -> World {
    let mut world = served(&resource(limits), 300, cost);
    world.ask(ms(30_000), &wish(Mode::Wait, cost).named("last"));
    world.settle_answered(ms(30_000), "last", said(verdict));
    world
}

#[test]
fn a_rejected_call_tells_nothing_of_the_time_that_calls_take() {
    let verdict = Verdict::Limited { scope: Scope::Unnamed, retry_after: Some(span(1)), by_other_accounts: true };
    let world = answered(vec![limit("requests", 10.0, SECOND)], &[("requests", 1.0)], verdict);
    let workers = world.scheduler.useful_workers(ms(30_000)).unwrap();
    assert!((workers - 3.0).abs() < 1e-6, "{workers}");
}

#[test]
fn a_spent_quota_feeds_no_workers() {
    let quota = counted(Algorithm::Quota(None), limit("units", 1000.0, span(1_000_000)));
    let limits = vec![limit("requests", 10.0, SECOND), quota];
    let cost = [("requests", 1.0), ("units", 1.0)];
    let verdict = Verdict::Exhausted { scope: Scope::Unit("units".to_owned()), reset: Some(SECOND) };
    let world = answered(limits, &cost, verdict);
    assert_eq!(world.scheduler.useful_workers(ms(30_000)), Some(0.0));
    let workers = world.scheduler.useful_workers(ms(31_000)).unwrap();
    assert!((workers - 3.0).abs() < 1e-6, "{workers} after its reset");
}

#[test]
fn a_call_is_in_flight_from_its_start_until_it_is_settled_or_given_back() {
    let mut world = World::new(&ten_per_second());
    for id in ["a", "b", "c"] {
        world.ask(ms(0), &wish(Mode::Reserve, &[("requests", 4.0)]).named(id));
    }
    let in_flight = |world: &World, at| world.scheduler.calls_in_flight(ms(at));
    assert_eq!((in_flight(&world, 0), in_flight(&world, 200)), (2, 3), "the third starts after 200 ms");
    world.settle(ms(100), "a", Outcome::Used(Vec::new()));
    world.settle(ms(100), "c", Outcome::Unused);
    assert_eq!((in_flight(&world, 100), in_flight(&world, 200)), (1, 1));
    assert_eq!(world.notes, [Note::CallEnded(span(100))], "the other call was not made");
}

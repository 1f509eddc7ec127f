//! Unwritten limits.

use crate::common::{World, amount, limit, ms, name, play, resource, span, wish};
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::adaptation::observation::{Described, Observation, Reading, Scope, Verdict};
use rampmeter_scheduler_core::durability::snapshot::DiscoveredSnapshot;
use rampmeter_scheduler_core::event::{Event, Outcome};
use rampmeter_scheduler_core::ids::Connection;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::{Applies, Discover, LimitSpec, Pattern, ResourceSpec};
use rampmeter_scheduler_core::scheduler::Scheduler;

const RATE: &str = "learned-rate";
const IN_FLIGHT: &str = "learned-in-flight";
const MINUTE: Span = Span::from_secs(60);

/// A resource without written limits.
fn unwritten() -> ResourceSpec {
    ResourceSpec {
        discover: Discover::All,
        discover_route: Some("route".to_owned()),
        discover_key: vec!["guild".to_owned()],
        ..resource(Vec::new())
    }
}

/// Ten requests in ten seconds are written, and a cap on calls in flight is looked for.
fn capped() -> ResourceSpec {
    ResourceSpec { discover: Discover::InFlight, ..resource(vec![limit("requests", 10.0, span(10_000))]) }
}

/// What an answer says about a limit's bucket: `left` of `of` remain, in windows of a minute.
fn reading(name: &str, left: f64, of: f64) -> Reading {
    let described = Described { name: Some(name.to_owned()), period: Some(MINUTE), ..Described::default() };
    let whole = Reading::new(Scope::Limit(name.to_owned()), amount(left));
    Reading { capacity: Some(amount(of)), reset: Some(MINUTE), reset_grain: span(1), described, ..whole }
}

fn passed(readings: Vec<Reading>) -> Observation {
    Observation { verdict: Verdict::Passed, readings, spent: Vec::new() }
}

fn refused(retry_after: Option<Span>, readings: Vec<Reading>) -> Observation {
    let verdict = Verdict::Limited { scope: Scope::Unnamed, retry_after, by_other_accounts: false };
    Observation { verdict, readings, spent: Vec::new() }
}

/// Makes a call over `connection` with these labels at `at`, and returns its id.
fn call(world: &mut World, at: u64, connection: u16, labels: &[(&str, &str)]) -> String {
    world.run_until(ms(at));
    let id = format!("call-{}", world.asked);
    let mut wish = wish(Mode::Reserve, &[]).named(&id);
    wish.labels.extend(labels.iter().copied());
    wish.connection = Connection(connection);
    let number = world.ask(ms(at), &wish);
    assert!(world.start(number).is_some(), "{:?}", world.last_answer(number));
    id
}

/// Makes such a call, which gets `answer` a second later.
fn answered(world: &mut World, at: u64, connection: u16, labels: &[(&str, &str)], answer: Observation) {
    let id = call(world, at, connection, labels);
    world.run_until(ms(at + 1000));
    world.settle_observed(ms(at + 1000), &id, Outcome::Used(Vec::new()), Some(answer));
}

fn in_force(world: &World, name: &str) -> Option<LimitSpec> {
    world.scheduler.limits_in_force().into_iter().find(|limit| *limit.name == *name)
}

fn names(world: &World) -> Vec<String> {
    world.scheduler.limits_in_force().iter().map(|limit| limit.name.to_string()).collect()
}

fn cap(world: &World) -> Option<f64> {
    in_force(world, IN_FLIGHT).map(|limit| limit.capacity.units())
}

fn rate(world: &World) -> f64 {
    let limit = in_force(world, RATE).unwrap();
    limit.capacity.units() / limit.period.secs()
}

#[test]
fn a_limit_that_headers_tell_of_counts_from_then_on() {
    let mut world = World::new(&unwritten());
    assert_eq!(names(&world), [RATE]);
    answered(&mut world, 0, 1, &[], passed(vec![reading("burst", 3.0, 5.0)]));
    let found = in_force(&world, "burst").unwrap();
    assert_eq!((found.capacity, found.period, found.applies), (amount(5.0), MINUTE, Applies::default()));
    let status = world.scheduler.limit_status(ms(10_000));
    let shown = status.iter().find(|limit| &*limit.name == "burst").unwrap();
    assert_eq!((shown.level, shown.found.as_ref().map(|found| &*found.by)), (3.0, Some("headers")));
    let starts: Vec<Time> = (0..4)
        .map(|_| {
            let number = world.ask(ms(70_000), &wish(Mode::Reserve, &[]));
            world.start(number).unwrap()
        })
        .collect();
    assert!(starts[3] < ms(75_000), "{starts:?}");
}

#[test]
fn a_bucket_is_shared_by_the_routes_whose_answers_name_it() {
    let mut world = World::new(&unwritten());
    for (at, route) in [(0, "messages"), (20_000, "reactions")] {
        answered(&mut world, at, 1, &[("route", route), ("guild", "a")], passed(vec![reading("abcd", 4.0, 5.0)]));
    }
    answered(&mut world, 40_000, 1, &[("route", "roles")], passed(vec![reading("bcde", 9.0, 10.0)]));
    let applies = |name| in_force(&world, name).unwrap().applies;
    let routes = |routes: &[&str]| Pattern::OneOf(routes.iter().map(|route| (*route).to_owned()).collect());
    let shared = Applies {
        matching: [("route".to_owned(), routes(&["messages", "reactions"]))].into(),
        key: vec!["guild".to_owned()],
        group: None,
    };
    assert_eq!(applies("abcd"), shared);
    let alone = Applies { matching: [("route".to_owned(), routes(&["roles"]))].into(), ..Applies::default() };
    assert_eq!(applies("bcde"), alone);
}

#[test]
fn usage_of_a_bucket_stays_when_another_route_joins_it() {
    let mut world = World::new(&ResourceSpec { discover_key: Vec::new(), ..unwritten() });
    answered(&mut world, 0, 1, &[("route", "messages")], passed(vec![reading("abcd", 3.0, 5.0)]));
    answered(&mut world, 20_000, 1, &[("route", "reactions")], passed(vec![reading("abcd", 2.0, 5.0)]));
    let status = world.scheduler.limit_status(ms(30_000));
    let level = status.iter().find(|limit| &*limit.name == "abcd").unwrap().level;
    assert!(level <= 3.0, "{level}");
}

#[test]
fn a_limit_that_one_client_makes_up_is_dropped_by_answers_to_others() {
    let mut world = World::new(&unwritten());
    answered(&mut world, 0, 1, &[], passed(vec![reading("real", 900.0, 1000.0)]));
    answered(&mut world, 20_000, 2, &[], passed(vec![reading("real", 899.0, 1000.0), reading("lie", 900.0, 1000.0)]));
    assert!(in_force(&world, "lie").is_some());
    let truth = || passed(vec![reading("real", 890.0, 1000.0)]);
    // Answers to the client that reported the limit are no denials, however many there are.
    (0..10).for_each(|call| answered(&mut world, 40_000 + call * 1500, 2, &[], truth()));
    assert!(in_force(&world, "lie").is_some());
    (0..8).for_each(|call| answered(&mut world, 56_000 + call * 1500, 1, &[], truth()));
    assert_eq!((in_force(&world, "lie"), names(&world).len()), (None, 2));
}

#[test]
fn a_limit_that_no_answer_repeats_is_dropped_after_a_minute() {
    let mut world = World::new(&unwritten());
    // The wait ends because the limit is dropped, long before its reset.
    let hour = span(3_600_000);
    let described = Described { period: Some(hour), ..reading("lie", 0.0, 1.0).described };
    let lie = Reading { reset: Some(hour), described, ..reading("lie", 0.0, 1.0) };
    answered(&mut world, 0, 1, &[], passed(vec![lie]));
    let number = world.ask(ms(11_000), &wish(Mode::Wait, &[]));
    world.run_until(ms(60_000));
    assert_eq!(world.start(number), None);
    world.run_until(ms(63_000));
    assert!(world.start(number).is_some());
}

/// Reaches `limit_search::MAX_ROUTES`.
#[test]
fn a_found_limit_applies_to_256_routes() {
    for (routes, kept) in [(256, 256), (257, 256)] {
        let mut world = World::new(&unwritten());
        for number in 0..routes {
            let route = format!("route-{number:03}");
            answered(&mut world, 20_000 * number, 1, &[("route", &route)], passed(vec![reading("abcd", 4.0, 5.0)]));
        }
        let Some(Pattern::OneOf(routes)) = in_force(&world, "abcd").unwrap().applies.matching.remove("route") else {
            panic!("a limit of some routes");
        };
        assert_eq!(routes.len(), kept);
    }
}

#[test]
fn the_number_of_found_limits_is_bounded() {
    let mut world = World::new(&unwritten());
    let lies = (0..60).map(|lie| reading(&format!("lie-{lie}"), 900.0, 1000.0)).collect();
    answered(&mut world, 0, 1, &[], passed(lies));
    assert_eq!(names(&world).len(), 1 + 24);
}

#[test]
fn a_refusal_that_nothing_explains_lowers_the_rate() {
    let mut world = World::new(&unwritten());
    let before = rate(&world);
    answered(&mut world, 0, 1, &[], refused(Some(span(1000)), Vec::new()));
    assert!(rate(&world) <= before * 0.6, "{} after {before}", rate(&world));
}

#[test]
fn a_refusal_that_headers_explain_leaves_the_rate() {
    let mut world = World::new(&unwritten());
    let before = rate(&world);
    answered(&mut world, 0, 1, &[], refused(Some(span(1000)), vec![reading("burst", 0.0, 5.0)]));
    assert_eq!((rate(&world), in_force(&world, "burst").is_some()), (before, true));
}

#[test]
fn rates_of_keys_in_a_record_of_the_build_before_count_no_more() {
    let mut world = World::new(&unwritten());
    answered(&mut world, 0, 1, &[], refused(Some(span(1000)), Vec::new()));
    let mut snapshot = world.scheduler.snapshot(ms(10_000), usize::MAX);
    let by_key = DiscoveredSnapshot {
        name: name("learned-rate-by-key"),
        key: vec!["guild".to_owned()],
        routes: vec!["a".to_owned()],
        ..snapshot.found[0].clone()
    };
    snapshot.found.push(by_key);
    let resource = Resource::new(&unwritten()).unwrap();
    let successor = World::of(Scheduler::restore(resource, Epoch::new(2), ms(10_000), ms(10_000), &snapshot));
    assert_eq!((names(&successor), rate(&successor)), (vec![RATE.to_owned()], rate(&world)));
}

#[test]
fn a_unit_that_no_limit_counts_may_still_be_found() {
    let mut world = World::new(&unwritten());
    let number = world.ask(ms(0), &wish(Mode::Reserve, &[("tokens", 7.0)]));
    assert!(world.start(number).is_some());
    play(
        &ResourceSpec { discover: Discover::Nothing, ..resource(vec![limit("requests", 1.0, span(1000))]) },
        "0 reserve a tokens=7 -> a:unknown_unit",
    );
}

/// Makes ten calls at once, of which the upstream serves the first four.
fn burst(spec: &ResourceSpec, refusal: &Observation) -> World {
    let mut world = World::new(spec);
    let calls: Vec<String> = (0..10).map(|_| call(&mut world, 0, 1, &[])).collect();
    for id in &calls[4..] {
        world.settle_observed(ms(20), id, Outcome::Used(Vec::new()), Some(refusal.clone()));
    }
    world
}

#[test]
fn the_served_calls_of_a_burst_tell_the_cap() {
    let busy = Observation { verdict: Verdict::Busy, readings: Vec::new(), spent: Vec::new() };
    for refusal in [refused(None, Vec::new()), busy] {
        let mut world = burst(&capped(), &refusal);
        assert_eq!(cap(&world), Some(4.0), "{refusal:?}");
        // Refused calls have taken nothing, and no rate is to blame.
        let status = world.scheduler.limit_status(ms(20));
        assert_eq!((status[0].level, status[0].frozen_ms), (6.02, 0.0));
        assert_eq!(status[1].found.as_ref().map(|found| &*found.by), Some("in-flight"));
        let number = world.ask(ms(20), &wish(Mode::Wait, &[]));
        world.run_until(ms(900));
        assert_eq!(world.start(number), None, "four are in flight");
        world.settle_observed(ms(900), "call-0", Outcome::Used(Vec::new()), Some(passed(Vec::new())));
        world.run_until(ms(1200));
        assert!(world.start(number).is_some(), "the places of calls that are not known end soon");
    }
}

#[test]
fn a_refusal_with_a_time_or_without_other_calls_is_no_cap() {
    assert_eq!(cap(&burst(&capped(), &refused(Some(span(100)), Vec::new()))), None);
    let nothing = ResourceSpec { discover: Discover::Nothing, ..capped() };
    assert_eq!(cap(&burst(&nothing, &refused(None, Vec::new()))), None);
    let mut world = World::new(&capped());
    answered(&mut world, 0, 1, &[], refused(None, Vec::new()));
    assert_eq!(cap(&world), None);
}

#[test]
fn found_limits_outlive_their_scheduler() {
    let restored = |spec: &ResourceSpec, world: &mut World, at: u64| {
        let snapshot = world.scheduler.snapshot(ms(at), usize::MAX);
        World::of(Scheduler::restore(Resource::new(spec).unwrap(), Epoch::new(2), ms(at), ms(at), &snapshot))
    };
    let mut world = World::new(&unwritten());
    answered(&mut world, 0, 1, &[("route", "roles"), ("guild", "a")], passed(vec![reading("abcd", 3.0, 5.0)]));
    answered(&mut world, 20_000, 1, &[], passed(vec![reading("core", 3.0, 5.0)]));
    answered(&mut world, 40_000, 1, &[("route", "none")], refused(Some(span(1000)), Vec::new()));
    let successor = restored(&unwritten(), &mut world, 50_000);
    let limits = |world: &World| {
        let mut limits = world.scheduler.limits_in_force();
        limits.sort_by(|one, other| one.name.cmp(&other.name));
        limits
    };
    assert_eq!(limits(&successor), limits(&world));
    let level = |world: &mut World| {
        let status = world.scheduler.limit_status(ms(50_000));
        status.iter().find(|limit| &*limit.name == "core").unwrap().level
    };
    let mut successor = successor;
    assert!(level(&mut successor) <= level(&mut world));

    let mut world = burst(&capped(), &refused(None, Vec::new()));
    let mut successor = restored(&capped(), &mut world, 20);
    assert_eq!(cap(&successor), Some(4.0));
    let number = successor.ask(ms(20), &wish(Mode::Allow, &[]));
    assert!(successor.start(number).is_none(), "four are in flight");
}

#[test]
fn a_limit_that_is_found_and_written_counts_as_written() {
    let mut world = World::new(&unwritten());
    answered(&mut world, 0, 1, &[], passed(vec![reading("burst", 3.0, 5.0)]));
    let written = LimitSpec { name: name("burst"), ..limit("requests", 7.0, span(1000)) };
    let rules = ResourceSpec { limits: vec![written], ..unwritten() };
    world.handle(ms(10_000), Event::Limits(Box::new(Resource::new(&rules).unwrap())));
    assert_eq!(in_force(&world, "burst").unwrap().capacity, amount(7.0));
    assert_eq!(names(&world), ["burst", RATE]);
}

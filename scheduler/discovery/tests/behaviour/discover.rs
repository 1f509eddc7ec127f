//! Limits that the configuration lacks.

use crate::world::{World, ms};
use rampmeter_discovery::{DiscoveredSnapshot, Evidence};
use rampmeter_policy::Resource;
use rampmeter_policy::observation::{Described, Observation, Reading, Scope, Verdict};
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::spec::{Applies, Discover, LimitSpec, MAX_PERIOD, Margin, Pattern, ResourceSpec};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::event::Event;

const RATE: &str = "learned-rate";
const IN_FLIGHT: &str = "learned-in-flight";
const MINUTE: Span = Span::from_secs(60);

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

fn amount(units: f64) -> Amount {
    Amount::new(units).unwrap()
}

fn span(millis: u64) -> Span {
    Span::from_millis(millis)
}

/// A limit without margin, with the name of its unit.
fn limit(unit: &str, capacity: f64, period: Span) -> LimitSpec {
    let margin = Margin::Fixed(Amount::ZERO);
    LimitSpec { margin, ..LimitSpec::new(name(unit), name(unit), amount(capacity), period) }
}

fn resource(limits: Vec<LimitSpec>) -> ResourceSpec {
    ResourceSpec { max_ahead: Some(MAX_PERIOD), ..ResourceSpec::new(name("api"), limits) }
}

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

/// Makes a call with these labels at `at`, and returns the number of its request.
fn call(world: &mut World, at: u64, labels: &[(&str, &str)]) -> usize {
    world.run_until(ms(at));
    let call = world.ask_for(ms(at), Mode::Reserve, labels, &[]).unwrap();
    assert!(world.start(call).is_some());
    call
}

/// When this many more calls may start that are asked for at `at`.
fn starts<const COUNT: usize>(world: &mut World, at: u64, mode: Mode) -> [Option<Time>; COUNT] {
    [(); COUNT].map(|()| {
        let number = world.ask(ms(at), mode);
        world.start(number)
    })
}

/// The number of routes that a limit of some routes is for.
fn routes_of(world: &World, limit: &str) -> usize {
    match in_force(world, limit).unwrap().applies.matching.remove("route") {
        Some(Pattern::OneOf(routes)) => routes.len(),
        other => panic!("{other:?}"),
    }
}

/// Makes such a call, which gets `answer` a second later.
fn answered(world: &mut World, at: u64, labels: &[(&str, &str)], answer: Observation) {
    let call = call(world, at, labels);
    world.run_until(ms(at + 1000));
    world.settle(ms(at + 1000), call, answer);
}

fn in_force(world: &World, name: &str) -> Option<LimitSpec> {
    world.limits().into_iter().find(|limit| *limit.name == *name)
}

fn names(world: &World) -> Vec<String> {
    world.limits().iter().map(|limit| limit.name.to_string()).collect()
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
    answered(&mut world, 0, &[], passed(vec![reading("burst", 3.0, 5.0)]));
    let found = in_force(&world, "burst").unwrap();
    assert_eq!((found.capacity, found.period, found.applies), (amount(5.0), MINUTE, Applies::default()));
    let shown = world.status_of(ms(10_000), "burst");
    assert_eq!((shown.level, shown.found.as_ref().map(|found| &*found.by)), (3.0, Some("headers")));
    let starts: [_; 4] = starts(&mut world, 70_000, Mode::Reserve);
    assert!(starts[3] < Some(ms(75_000)), "{starts:?}");
}

#[test]
fn a_bucket_is_shared_by_the_routes_whose_answers_name_it() {
    let mut world = World::new(&unwritten());
    for (at, route) in [(0, "messages"), (20_000, "reactions")] {
        answered(&mut world, at, &[("route", route), ("guild", "a")], passed(vec![reading("abcd", 4.0, 5.0)]));
    }
    answered(&mut world, 40_000, &[("route", "roles")], passed(vec![reading("bcde", 9.0, 10.0)]));
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
fn a_limit_that_is_made_up_is_dropped_by_answers_that_do_not_tell_of_it() {
    let mut world = World::new(&unwritten());
    answered(&mut world, 0, &[], passed(vec![reading("real", 900.0, 1000.0)]));
    let lie = || passed(vec![reading("real", 899.0, 1000.0), reading("lie", 900.0, 1000.0)]);
    (0..30).for_each(|call| answered(&mut world, 20_000 + call * 1500, &[], lie()));
    let truth = || passed(vec![reading("real", 890.0, 1000.0)]);
    (0..7).for_each(|call| answered(&mut world, 70_000 + call * 1500, &[], truth()));
    answered(&mut world, 82_000, &[], lie());
    (0..7).for_each(|call| answered(&mut world, 84_000 + call * 1500, &[], truth()));
    assert!(in_force(&world, "lie").is_some(), "seven in a row");
    answered(&mut world, 96_000, &[], truth());
    assert_eq!((in_force(&world, "lie"), names(&world).len()), (None, 2));
}

#[test]
fn a_limit_that_no_answer_repeats_is_dropped_after_a_minute() {
    let mut world = World::new(&unwritten());
    // The wait ends because the limit is dropped, long before its reset.
    let hour = span(3_600_000);
    let described = Described { period: Some(hour), ..reading("lie", 0.0, 1.0).described };
    let lie = Reading { reset: Some(hour), described, ..reading("lie", 0.0, 1.0) };
    answered(&mut world, 0, &[], passed(vec![lie]));
    let number = world.ask(ms(11_000), Mode::Wait);
    world.run_until(ms(60_000));
    assert_eq!(world.start(number), None);
    world.run_until(ms(63_000));
    assert!(world.start(number).is_some());
}

/// Reaches `discovery::MAX_ROUTES` and `limit_search::ROUTES_BYTES`.
#[test]
fn a_discovered_limit_applies_to_256_routes_and_to_sixteen_kibibytes_of_them() {
    for (length, routes, kept) in [(9, 256, 256), (9, 257, 256), (256, 70, 64)] {
        let mut world = World::new(&unwritten());
        for number in 0..routes {
            let route = format!("{number:x>length$}");
            answered(&mut world, 20_000 * number, &[("route", &route)], passed(vec![reading("abcd", 4.0, 5.0)]));
        }
        assert_eq!(routes_of(&world, "abcd"), kept, "{routes} routes of {length} bytes");
    }
}

#[test]
fn the_number_of_discovered_limits_is_bounded() {
    let mut world = World::new(&unwritten());
    let lies = (0..60).map(|lie| reading(&format!("lie-{lie}"), 900.0, 1000.0)).collect();
    answered(&mut world, 0, &[], passed(lies));
    assert_eq!(names(&world).len(), 1 + 24);
}

#[test]
fn a_refusal_that_nothing_explains_slows_the_next_calls() {
    let mut world = World::new(&unwritten());
    let before = rate(&world);
    answered(&mut world, 0, &[], refused(Some(span(1000)), Vec::new()));
    assert!(rate(&world) <= before * 0.6, "{} after {before}", rate(&world));
    // This call ends the freeze.
    answered(&mut world, 5000, &[], passed(Vec::new()));
    world.run_until(ms(10_000));
    let starts: [_; 3] = starts(&mut world, 10_000, Mode::Reserve);
    assert!((Some(ms(11_900))..=Some(ms(12_100))).contains(&starts[2]), "one a second: {starts:?}");
}

#[test]
fn a_refusal_that_headers_explain_leaves_the_rate() {
    let mut world = World::new(&unwritten());
    let before = rate(&world);
    answered(&mut world, 0, &[], refused(Some(span(1000)), vec![reading("burst", 0.0, 5.0)]));
    assert_eq!((rate(&world), in_force(&world, "burst").is_some()), (before, true));
}

#[test]
fn rates_of_keys_in_a_record_of_the_build_before_count_no_more() {
    let mut world = World::new(&unwritten());
    answered(&mut world, 0, &[], refused(Some(span(1000)), Vec::new()));
    let mut state = world.state(ms(10_000));
    let by_key = DiscoveredSnapshot {
        name: name("learned-rate-by-key"),
        key: vec!["guild".to_owned()],
        routes: vec!["a".to_owned()],
        ..state.1[0].clone()
    };
    state.1.push(by_key);
    let successor = World::restored(&unwritten(), ms(10_000), &state);
    assert_eq!((names(&successor), rate(&successor)), (vec![RATE.to_owned()], rate(&world)));
}

#[test]
fn a_limit_may_still_be_discovered_for_a_unit_that_no_limit_counts() {
    let mut world = World::new(&unwritten());
    let call = world.ask_for(ms(0), Mode::Reserve, &[], &[("tokens", 7.0)]).unwrap();
    assert!(world.start(call).is_some());
    let nothing = ResourceSpec { discover: Discover::Nothing, ..capped() };
    let refused = World::new(&nothing).ask_for(ms(0), Mode::Reserve, &[], &[("tokens", 7.0)]);
    assert!(matches!(refused, Err(Refusal::UnknownUnit { .. })), "{refused:?}");
}

/// Makes ten calls at once, of which the upstream serves the first four.
fn burst(spec: &ResourceSpec, refusal: &Observation) -> World {
    let mut world = World::new(spec);
    let calls: Vec<usize> = (0..10).map(|_| call(&mut world, 0, &[])).collect();
    for call in &calls[4..] {
        world.settle(ms(20), *call, refusal.clone());
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
        let status = world.status(ms(20));
        assert_eq!((status[0].level, status[0].frozen_ms), (6.02, 0.0));
        assert_eq!(status[1].found.as_ref().map(|found| &*found.by), Some("in-flight"));
        let number = world.ask(ms(20), Mode::Wait);
        world.run_until(ms(900));
        assert_eq!(world.start(number), None, "four are in flight");
        world.settle(ms(900), 0, passed(Vec::new()));
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
    answered(&mut world, 0, &[], refused(None, Vec::new()));
    assert_eq!(cap(&world), None);
}

#[test]
fn discovered_limits_outlive_their_scheduler() {
    let restored = |spec: &ResourceSpec, world: &mut World, at: u64| {
        let state = world.state(ms(at));
        World::restored(spec, ms(at), &state)
    };
    let mut world = World::new(&unwritten());
    answered(&mut world, 0, &[("route", "roles"), ("guild", "a")], passed(vec![reading("abcd", 3.0, 5.0)]));
    answered(&mut world, 20_000, &[], passed(vec![reading("core", 3.0, 5.0)]));
    answered(&mut world, 40_000, &[("route", "none")], refused(Some(span(1000)), Vec::new()));
    let successor = restored(&unwritten(), &mut world, 50_000);
    let limits = |world: &World| {
        let mut limits = world.limits();
        limits.sort_by(|one, other| one.name.cmp(&other.name));
        limits
    };
    assert_eq!(limits(&successor), limits(&world));
    let level = |world: &mut World| world.status_of(ms(50_000), "core").level;
    let mut successor = successor;
    assert!(level(&mut successor) <= level(&mut world));

    let mut world = burst(&capped(), &refused(None, Vec::new()));
    let mut successor = restored(&capped(), &mut world, 20);
    assert_eq!(cap(&successor), Some(4.0));
    assert_eq!(starts(&mut successor, 20, Mode::Allow), [None; 3], "four are in flight");
    assert_eq!(successor.discovery.take_news(), [], "they were news to the former leader");
}

#[test]
fn a_limit_that_is_discovered_and_written_counts_as_written() {
    let mut world = World::new(&unwritten());
    answered(&mut world, 0, &[], passed(vec![reading("burst", 3.0, 5.0)]));
    let written = LimitSpec { name: name("burst"), ..limit("requests", 7.0, span(1000)) };
    let rules = ResourceSpec { limits: vec![written], ..unwritten() };
    world.handle(ms(10_000), Event::Limits(Box::new(Resource::new(&rules).unwrap())));
    assert_eq!(in_force(&world, "burst").unwrap().capacity, amount(7.0));
    assert_eq!(names(&world), ["burst", RATE]);
}

#[test]
fn inherited_calls_hold_their_places_in_a_discovered_cap() {
    let mut world = burst(&capped(), &refused(None, Vec::new()));
    // By now the places of the calls before the cap was discovered are free.
    let inherited = [call(&mut world, 2000, &[]), call(&mut world, 2000, &[])];
    let state = world.state(ms(2100));
    let mut successor = World::restored(&capped(), ms(2100), &state);
    successor.handle(ms(2200), Event::Wake);
    assert_eq!(successor.status_of(ms(2200), IN_FLIGHT).level, 2.0);
    successor.settle(ms(2300), inherited[0], passed(Vec::new()));
    assert_eq!(successor.status_of(ms(2300), IN_FLIGHT).level, 3.0);
    let starts: [_; 4] = starts(&mut successor, 2300, Mode::Allow);
    assert_eq!(starts.map(|start| start.is_some()), [true, true, true, false]);
}

#[test]
fn a_discovered_rate_holds_from_the_first_call_on() {
    let mut world = World::new(&unwritten());
    assert_eq!(rate(&world), 2.0);
    let starts: [_; 4] = starts(&mut world, 0, Mode::Reserve);
    assert!(starts[3] >= Some(ms(1400)), "{starts:?}");
}

#[test]
fn a_limit_is_news_once() {
    let mut world = World::new(&unwritten());
    let news = |world: &mut World| {
        let news = world.discovery.take_news().into_iter();
        news.map(|(limit, evidence)| (limit.name.to_string(), limit.capacity, evidence)).collect::<Vec<_>>()
    };
    assert_eq!(news(&mut world), [(RATE.to_owned(), amount(2.0), Evidence::Refusals)]);
    answered(&mut world, 0, &[], passed(vec![reading("burst", 3.0, 5.0)]));
    assert_eq!(news(&mut world), [("burst".to_owned(), amount(5.0), Evidence::Headers)]);
    assert_eq!(news(&mut world), []);
}

#[test]
fn limits_stay_as_they_are_during_a_hand_over() {
    let mut world = World::new(&unwritten());
    let inherited = call(&mut world, 0, &[]);
    world.handle(ms(10), Event::HandOver);
    world.settle(ms(20), inherited, passed(vec![reading("burst", 3.0, 5.0)]));
    assert_eq!(names(&world), [RATE]);
    // Rules that come meanwhile take no discovered limit away.
    let written = LimitSpec { name: name("burst"), ..limit("requests", 7.0, span(1000)) };
    let rules = ResourceSpec { limits: vec![written], ..unwritten() };
    world.handle(ms(30), Event::Limits(Box::new(Resource::new(&rules).unwrap())));
    assert_eq!(names(&world), ["burst", RATE]);
}

/// Another route of a limit charges no waiting request anew.
#[test]
fn a_route_joins_a_limit_in_place() {
    let mut world = World::new(&ResourceSpec { discover_key: Vec::new(), ..unwritten() });
    answered(&mut world, 0, &[("route", "messages")], passed(vec![reading("abcd", 3.0, 5.0)]));
    let late = call(&mut world, 20_000, &[("route", "reactions")]);
    let waiting: Vec<usize> = (0..200).map(|_| world.ask(ms(20_000), Mode::Wait)).collect();
    world.settle(ms(20_000), late, passed(vec![reading("abcd", 2.0, 5.0)]));
    assert!(world.next_wakeup() > ms(20_000), "no step is due");
    assert_eq!(waiting.iter().filter(|number| world.start(**number).is_some()).count(), 0);
    // From now on, calls of this route are charged to the limit.
    let level = world.status_of(ms(20_000), "abcd").level;
    world.ask_for(ms(20_000), Mode::Reserve, &[("route", "reactions")], &[]).unwrap();
    assert_eq!(world.status_of(ms(20_000), "abcd").level, level - 1.0);
}

#[test]
fn a_reservation_outlives_its_scheduler_in_a_discovered_cap_and_is_returned() {
    let mut world = burst(&capped(), &refused(None, vec![]));
    let far = world.ask(ms(20), Mode::Reserve);
    let state = world.state(ms(30));
    let mut successor = World::restored(&capped(), ms(30), &state);
    successor.handle(ms(40), Event::Wake);
    assert!(world.start(far).is_some_and(|start| start > ms(50)));
    successor.give_back(ms(50), far);
    successor.run_until(ms(60_000));
}

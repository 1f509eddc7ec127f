//! Upstreams that differ from the configuration, and workers that learn nothing of it.

#![expect(clippy::print_stdout, reason = "figures, shown with --nocapture")]

use crate::common::{limit, name, secs};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::policy::spec::{LimitSpec, ResourceSpec};
use rampmeter_simulator::fleet::{Arrivals, Fleet};
use rampmeter_simulator::network::{Delay, Network};
use rampmeter_simulator::outcome::Outcome;
use rampmeter_simulator::strategy::Strategy;
use rampmeter_simulator::upstream::Behaviour;
use rampmeter_simulator::world::World;
use rampmeter_upstream::{Preset, RetryAfter};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

/// 50 requests in 10 s.
fn api() -> World {
    let resource = ResourceSpec::new(name("api"), vec![limit("requests", 50.0, Span::from_secs(10))]);
    World::new(resource, 1).until(secs(600)).by(Strategy::PlainRule)
}

/// Fifty workers that never pause.
fn world() -> World {
    api().with(Fleet::new("workers", 50))
}

fn limited(policy: &str) -> Behaviour {
    Behaviour { policies: vec![policy.parse().unwrap()], ..Behaviour::default() }
}

fn run(what: &str, world: &World) -> Outcome {
    let outcome = world.run().unwrap();
    println!("{what}: {} ok, {} × 429", outcome.ok(), outcome.rejected());
    outcome
}

/// How many of 3050 calls, which the configured bucket would serve, are served.
#[test]
fn models_differ_from_what_is_configured_as_they_should() {
    #[rustfmt::skip]
    let table: [(&str, RangeInclusive<usize>, RangeInclusive<usize>); 8] = [
        // policy,                          served,      429
        ("requests=50/10s",                 3040..=3050, 0..=5),
        ("requests=50/10s;start=0",         2990..=3005, 20..=60),
        ("requests=50/10s;burst=40",        3030..=3040, 5..=15),
        ("requests=50/10s;tick=1s",         3040..=3050, 1..=10),
        // Every arrival costs a fraction.
        ("requests=50/10s;whole",           1400..=1700, 1000..=2000),
        ("requests=50/10s;fixed-window",    2990..=3000, 40..=60),
        ("requests=50/10s;sliding-window",  2900..=3000, 40..=150),
        ("requests=50/10s;leaky-bucket",    3040..=3050, 0..=5),
    ];
    for (policy, served, rejected) in table {
        let outcome = run(policy, &world().against(limited(policy)));
        assert!(served.contains(&outcome.ok()), "{policy}: {} served", outcome.ok());
        assert!(rejected.contains(&outcome.rejected()), "{policy}: {} × 429", outcome.rejected());
    }
}

#[test]
fn a_bucket_that_counts_rejected_calls_serves_no_hammering_worker() {
    let world = world().against(limited("requests=50/10s;leaky-bucket")).by(Strategy::RetryAfter);
    assert!(run("hammered", &world).ok() < 500);
}

/// A thousand points, and fifty a second. After 100 s, both are halved.
#[test]
fn a_known_upstream_changes_its_limits_unannounced() {
    let points = LimitSpec { unit: name("points"), ..limit("points", 1000.0, Span::from_secs(20)) };
    let resource = ResourceSpec::new(name("shop"), vec![points]);
    let queries = Fleet::new("queries", 50).costing("points", Amount::new(10.0).unwrap());
    let world = World::new(resource, 1).until(secs(200)).by(Strategy::PlainRule).with(queries);
    let served = |changes| {
        let behaviour = Behaviour { preset: Some(Preset::named("shopify").unwrap()), changes, ..Behaviour::default() };
        run("shop", &world.clone().against(behaviour)).ok()
    };
    let halved = vec![(secs(100), vec!["points=500/20s".parse().unwrap()])];
    assert!((1080..=1100).contains(&served(Vec::new())));
    assert!((830..=860).contains(&served(halved)));
}

#[test]
fn calls_in_flight_are_bounded() {
    let slow = Network { response: Delay::fixed(Span::from_secs(2)), ..Network::default() };
    let world = |calls| {
        let behaviour = Behaviour { concurrency: NonZeroUsize::new(calls), ..Behaviour::default() };
        world().across(slow).against(behaviour)
    };
    assert!(run("sixty", &world(60)).rejected() <= 5);
    let outcome = run("two", &world(2));
    // Two at a time are one in a second, if a worker is always ready.
    assert!(
        (500..=600).contains(&outcome.ok()) && outcome.rejected() > 1000,
        "{} {}",
        outcome.ok(),
        outcome.rejected()
    );
}

#[test]
fn waits_are_stated_as_the_upstream_does() {
    let figures = |retry_after| {
        let behaviour = Behaviour { retry_after, ..Behaviour::default() };
        run(&format!("{retry_after:?}"), &world().against(behaviour).by(Strategy::RetryAfter))
    };
    let [millis, seconds, missing] = [RetryAfter::Milliseconds, RetryAfter::Seconds, RetryAfter::Missing].map(figures);
    // Whole seconds are longer waits, and without any wait the workers back off.
    assert!(millis.rejected() > 2 * seconds.rejected() && seconds.rejected() > 2 * missing.rejected());
    let back_off = run("back-off", &world().by(Strategy::BackOff));
    assert_eq!(missing.rejected(), back_off.rejected());
}

#[test]
fn strangers_take_unused_capacity() {
    let arrivals = Arrivals::Poisson { per_second: 1.0 };
    let strangers = Fleet { foreign: true, arrivals, ..Fleet::new("strangers", 20) };
    let world = api().with(strangers).with(Fleet::new("workers", 50));
    for strategy in Strategy::ALL {
        let outcome = run(&strategy.to_string(), &world.clone().by(strategy));
        let [strangers, own] = &outcome.fleets[..] else { panic!("two fleets") };
        assert!(strangers.ok() >= 20 && own.rejected() >= 10, "{} {}", strangers.ok(), own.rejected());
        assert!(outcome.requests.iter().all(|request| request.worker >= 20), "strangers ask no scheduler");
    }
}

//! Upstreams that differ from the configuration, and workers that learn nothing of it.

use crate::prelude::*;

/// 50 requests in 10 s.
fn api() -> World {
    let resource = ResourceSpec::new(name("api"), vec![limit("requests", 50.0, Span::from_secs(10))]);
    World::new(resource, 1).until(secs(600)).by(Strategy::PlainRule)
}

/// Fifty workers that never pause.
fn world() -> World {
    api().with(Fleet::new("workers", 50))
}

fn run(what: &str, world: &World) -> Outcome {
    let outcome = world.run().unwrap();
    println!("{what}: {} ok, {} × 429", outcome.ok(), outcome.rejected());
    outcome
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

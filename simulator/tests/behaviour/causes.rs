//! The cause of rejections that the scheduler tells, judged by the cause that the world has.

use crate::prelude::*;
use rampmeter_protocol::status::RejectionCause::{self, Burst, LimitTooHigh, Strangers};

/// What the upstream allows in a period.
const ALLOWED: f64 = 200.0;
const PERIOD: u64 = 10;

const ALGORITHMS: [(&str, Algorithm, &str); 4] = [
    ("token bucket", Algorithm::TokenBucket, ""),
    ("leaky bucket", Algorithm::LeakyBucket, ";leaky-bucket"),
    ("sliding window", Algorithm::SlidingWindow, ";sliding-window"),
    ("fixed window", Algorithm::FixedWindow(Alignment::Epoch), ";fixed-window"),
];

/// Workers who want more than the upstream allows, which has `times` the capacity in the file.
fn world(algorithm: &Algorithm, policy: &str, times: f64) -> World {
    let spec = limit("requests", ALLOWED * times, Span::from_secs(PERIOD));
    let resource = ResourceSpec::new(name("api"), vec![LimitSpec { algorithm: algorithm.clone(), ..spec }]);
    let policies = vec![format!("requests={ALLOWED}/{PERIOD}s{policy}").parse().unwrap()];
    let upstream = Behaviour { policies, ..Behaviour::default() };
    World::new(resource, 1).until(secs(400)).with(Fleet::new("workers", 40)).against(upstream)
}

/// Strangers who would use this share of the account.
fn strangers(share: f64) -> Fleet {
    let arrivals = Arrivals::Poisson { per_second: ALLOWED / PERIOD as f64 * share };
    Fleet { foreign: true, arrivals, ..Fleet::new("strangers", 50) }
}

/// Calls that arrive at any time within two seconds, which no margin covers.
fn jittery() -> Network {
    Network { call: Delay::up_to(Span::from_secs(2)), ..Network::default() }
}

/// Checks that at least 95 % of the rejections are told to have this cause.
fn check(what: &str, world: &World, truth: RejectionCause) {
    let causes = world.run().unwrap().causes;
    let all: u64 = RejectionCause::ALL.into_iter().map(|cause| causes.by(cause)).sum();
    let right = 100.0 * causes.by(truth) as f64 / all as f64;
    println!("{what}: {right:.1} % of {all}: {causes:?}");
    assert!(all > 10 && right >= 95.0, "{what}: {causes:?}");
}

#[test]
fn a_limit_that_is_written_too_high_is_the_cause() {
    for (algorithm, kind, policy) in &ALGORITHMS {
        for times in [10.0, 5.0, 2.0] {
            check(&format!("{algorithm}, {times} times too high"), &world(kind, policy, times), LimitTooHigh);
        }
    }
}

/// Each call takes one of 500 requests, which are there, and ten of 200 units, where the file says 2000.
#[test]
fn of_two_limits_the_one_that_rejects_is_the_cause() {
    let limits =
        vec![limit("requests", 500.0, Span::from_secs(PERIOD)), limit("units", 2000.0, Span::from_secs(PERIOD))];
    let policies = ["requests=500/10s", "units=200/10s"].map(|policy| policy.parse().unwrap());
    let upstream = Behaviour { policies: policies.into(), ..Behaviour::default() };
    let cost = CostModel::new().with("units", amount(10.0));
    let world = World::new(ResourceSpec::new(name("api"), limits), 1).until(secs(400)).against(upstream);
    check("two limits", &world.with(Fleet { cost, ..Fleet::new("workers", 40) }), LimitTooHigh);
}

#[test]
fn strangers_on_the_account_are_the_cause() {
    for (algorithm, kind, policy) in &ALGORITHMS {
        for share in [0.1, 0.2, 0.4] {
            let world = world(kind, policy, 1.0).with(strangers(share));
            check(&format!("{algorithm}, {share} strangers"), &world, Strangers);
        }
    }
}

#[test]
fn bursts_beyond_the_margin_are_the_cause() {
    let (_, kind, policy) = &ALGORITHMS[2];
    check("sliding window, bursts", &world(kind, policy, 1.0).across(jittery()), Burst);
}

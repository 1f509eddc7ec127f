//! Limits that are written far too high. The scheduler holds them to what the upstream allows.

use crate::prelude::*;
use rampmeter_protocol::status::RejectionCause;
use rampmeter_upstream::Rule;

/// What the upstream allows in a period of ten seconds, and how long a world lasts.
const ALLOWED: f64 = 200.0;
const SECS: u64 = 600;

struct Figures {
    /// The share of calls after the first minute that were rejected, and the used share of what the
    /// upstream allows, in percent.
    rejected: f64,
    used: f64,
}

/// The figures of a fleet after `from` seconds.
fn figures(what: &str, calls: &[Call], from: u64, allowed_a_second: f64) -> Figures {
    let late: Vec<&Call> = calls.iter().filter(|call| call.at >= secs(from)).collect();
    let ok = late.iter().filter(|call| call.ok).count();
    let rejected = 100.0 * (late.len() - ok) as f64 / late.len() as f64;
    let used = 100.0 * ok as f64 / (allowed_a_second * (SECS - from) as f64);
    println!("{what}: {rejected:.2} % rejected, {used:.1} % used");
    Figures { rejected, used }
}

#[test]
fn windows_that_are_written_too_high_are_held_to_what_is_allowed() {
    for (what, algorithm, policy) in [
        ("sliding window", Algorithm::SlidingWindow, "sliding-window"),
        ("fixed window", Algorithm::FixedWindow(Alignment::Epoch), "fixed-window"),
    ] {
        for times in [5.0, 20.0] {
            let spec = limit("requests", ALLOWED * times, Span::from_secs(10));
            let resource = ResourceSpec::new(name("api"), vec![LimitSpec { algorithm: algorithm.clone(), ..spec }]);
            let policies = vec![format!("requests={ALLOWED}/10s;{policy}").parse().unwrap()];
            let world = World::new(resource, 1).until(secs(SECS)).with(Fleet::new("workers", 40));
            let world = world.against(Behaviour { policies, ..Behaviour::default() });
            let outcome = world.run().unwrap();
            let what = format!("{what}, {times} times");
            let Figures { rejected, used } = figures(&what, &outcome.fleets[0].calls, 60, ALLOWED / 10.0);
            assert!(rejected <= 0.3 && used >= 95.0, "{what}");
        }
    }
}

/// Units are written ten times too high, and requests right. A pause of some seconds can't be asked for by
/// a window of one, and the units that are served before each rejection are alike.
#[test]
fn of_two_windows_the_one_that_rejects_is_held() {
    let window = |unit, capacity, period| LimitSpec {
        algorithm: Algorithm::SlidingWindow,
        ..limit(unit, capacity, Span::from_secs(period))
    };
    let limits = vec![window("requests", 5.0, 1), window("units", ALLOWED * 10.0, 10)];
    let policies = ["requests=5/1s;sliding-window", "units=200/10s;sliding-window"];
    let policies = policies.map(|policy| policy.parse().unwrap()).into();
    let upstream = Behaviour { policies, retry_after: RetryAfter::Seconds, ..Behaviour::default() };
    for seed in 1..=5 {
        let world = World::new(ResourceSpec::new(name("api"), limits.clone()), seed).until(secs(SECS));
        let costs = |draw: Draw| CostModel::new().with("units", draw);
        let any = Draw::Between(amount(1.0), amount(20.0));
        let first = Fleet { cost: costs(any), until: secs(300), ..Fleet::new("of any cost", 40) };
        let small = Fleet { cost: costs(amount(1.0).into()), from: secs(320), ..Fleet::new("of one unit", 40) };
        let outcome = world.with(first).with(small).against(upstream.clone()).run().unwrap();
        let rejected = outcome.fleets[0].calls.iter().filter(|call| call.at >= secs(60) && !call.ok).count();
        let Figures { used, .. } = figures("calls of one unit", &outcome.fleets[1].calls, 330, 5.0);
        println!("{rejected} rejected, {:?}", outcome.causes);
        assert!(rejected <= 10 && used >= 95.0);
        let all: u64 = RejectionCause::ALL.into_iter().map(|cause| outcome.causes.by(cause)).sum();
        assert!(outcome.causes.by(RejectionCause::LimitTooHigh) * 20 >= all * 19);
    }
}

/// Customers with these plans, under a limit by customer that is five times the first plan.
fn customers(algorithm: &Algorithm, policy: &str, plans: &[f64], period: u64) -> World {
    let mut spec = limit("requests", plans[0] * 5.0, Span::from_secs(period));
    spec.applies.key = vec!["customer".to_owned()];
    let resource = ResourceSpec::new(name("api"), vec![LimitSpec { algorithm: algorithm.clone(), ..spec }]);
    let rule = |plan: &f64| {
        let rule = Rule::new(format!("requests={plan}/{period}s{policy}").parse().unwrap());
        rule.only("customer", &[&plan.to_string()])
    };
    let preset = Preset::new(plans.iter().map(rule).collect()).with_retry_after(RetryAfter::Seconds);
    let upstream = Behaviour { preset: Some(preset), ..Behaviour::default() };
    World::new(resource, 1).until(secs(SECS)).against(upstream)
}

fn customer(plan: f64) -> Fleet {
    let labels = [("customer".to_owned(), Values::One(plan.to_string()))].into();
    Fleet { labels, ..Fleet::new(&plan.to_string(), 60) }
}

#[test]
fn a_key_is_held_to_what_it_is_allowed_and_others_are_not() {
    // A tenth of what is written is the lowest rate that is learned, and is reached slowly.
    let plans = [(ALLOWED, 97.0), (ALLOWED / 2.0, 96.0), (ALLOWED * 5.0, 99.0)];
    for (algorithm, policy) in [
        (Algorithm::TokenBucket, ""),
        (Algorithm::SlidingWindow, ";sliding-window"),
        (Algorithm::FixedWindow(Alignment::Epoch), ";fixed-window"),
    ] {
        for plans in [&plans[..1], &plans] {
            let capacities: Vec<f64> = plans.iter().map(|(plan, _)| *plan).collect();
            let world = customers(&algorithm, policy, &capacities, 10);
            let world = capacities.iter().fold(world, |world, plan| world.with(customer(*plan)));
            for ((plan, least), fleet) in plans.iter().zip(world.run().unwrap().fleets) {
                let what = format!("{}, {plan}, one of {}", algorithm.as_str(), plans.len());
                let Figures { rejected, used } = figures(&what, &fleet.calls, 120, plan / 10.0);
                assert!(rejected <= 0.5 && used >= *least, "{what}");
            }
        }
    }
}

/// Few calls come between two rejections, so that what they teach has to last.
#[test]
fn a_key_with_few_calls_remembers_what_it_is_allowed() {
    let outcome = customers(&Algorithm::TokenBucket, "", &[50.0], 60).with(customer(50.0)).run().unwrap();
    let Figures { rejected, used } = figures("50 a minute", &outcome.fleets[0].calls, 120, 50.0 / 60.0);
    assert!(rejected <= 0.6 && used >= 97.0);
}

#[test]
fn a_key_that_is_held_stays_held_without_calls() {
    let world = customers(&Algorithm::SlidingWindow, ";sliding-window", &[ALLOWED], 10);
    let first = Fleet { until: secs(200), ..customer(ALLOWED) };
    let second = Fleet { name: "later".to_owned(), from: secs(260), ..customer(ALLOWED) };
    let outcome = world.with(first).with(second).run().unwrap();
    let Figures { rejected, .. } =
        figures("after a minute without calls", &outcome.fleets[1].calls, 260, ALLOWED / 10.0);
    assert!(rejected <= 0.5);
}

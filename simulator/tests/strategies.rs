//! The same world, in which workers keep to the limits in different ways.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]
#![expect(clippy::print_stdout, reason = "figures, for who asks with --nocapture")]

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::spec::{FairShare, LimitSpec, Margin, ResourceSpec};
use rampmeter_simulator::fleet::{Clients, Fleet};
use rampmeter_simulator::outcome::Outcome;
use rampmeter_simulator::strategy::Strategy;
use rampmeter_simulator::world::World;
use std::collections::BTreeMap;

fn hub() -> ResourceSpec {
    let limit = |unit: &str, capacity: f64| LimitSpec {
        name: Name::new(unit).unwrap(),
        unit: Name::new(unit).unwrap(),
        capacity: Amount::new(capacity).unwrap(),
        period: Span::from_secs(10),
        margin: Margin::Auto,
    };
    let limits = vec![limit("requests", 50.0), limit("processing-units", 200.0)];
    let fair_share = FairShare { label: "client".to_owned(), weights: BTreeMap::new() };
    ResourceSpec { fair_share: Some(fair_share), ..ResourceSpec::new(Name::new("hub").unwrap(), limits) }
}

/// 400 heavy calls and 460 light ones, by workers who never pause.
fn fare(strategy: Strategy) -> Outcome {
    let units = |units| Amount::new(units).unwrap();
    let heavy = Fleet { calls: Some(10), ..Fleet::new("heavy", 20) }.costing("processing-units", units(25.0));
    let light = Fleet { calls: Some(11), ..Fleet::new("light", 60) };
    let light = light.costing("processing-units", units(2.0));
    let fleets = [heavy, light].map(|fleet| fleet.of_clients(Clients::One));
    let world = fleets.into_iter().fold(World::new(hub(), 1), World::with);
    let outcome = world.by(strategy).until(Time::ORIGIN + Span::from_secs(7200)).run().unwrap();
    let [heavy, light] = &outcome.fleets[..] else { panic!("two fleets") };
    println!(
        "{strategy:>14}: {} × 429, {} of 860 after {}, light p50 {}, heavy p50 {}",
        outcome.rejected(),
        outcome.ok(),
        outcome.finished(),
        light.wait_percentile(50),
        heavy.wait_percentile(50)
    );
    outcome
}

#[test]
fn only_exact_starts_see_no_429_and_late_binding_lets_light_calls_through() {
    let [back_off, retry_after, static_share, plain_rule, reserve, late_binding] = Strategy::ALL.map(fare);
    for outcome in [&back_off, &retry_after, &static_share, &plain_rule, &reserve, &late_binding] {
        assert_eq!(outcome.ok(), 860);
    }
    for outcome in [&back_off, &retry_after, &static_share, &plain_rule] {
        assert!(outcome.rejected() > 10, "{}", outcome.rejected());
    }
    assert_eq!((reserve.rejected(), late_binding.rejected()), (0, 0));
    let light = |outcome: &Outcome| outcome.fleets[1].wait_percentile(50).secs();
    assert!(light(&late_binding) < 0.7 * light(&reserve), "{} and {}", light(&late_binding), light(&reserve));
    assert!(static_share.finished().secs() > 5.0 * reserve.finished().secs(), "most of the bandwidth is nobody's");
}

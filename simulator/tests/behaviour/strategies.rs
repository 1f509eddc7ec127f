//! One world under different strategies.

use crate::prelude::*;

/// 400 heavy calls and 460 light ones, by workers that never pause.
fn measure(strategy: Strategy) -> Outcome {
    let heavy = Fleet { calls: Some(10), ..Fleet::new("heavy", 20) }.costing(PROCESSING_UNITS, amount(25.0));
    let light = Fleet { calls: Some(11), ..Fleet::new("light", 60) };
    let light = light.costing(PROCESSING_UNITS, amount(2.0));
    let fleets = [heavy, light].map(|fleet| fleet.of_clients(Clients::One));
    let world = fleets.into_iter().fold(World::new(shared(sentinel_hub()), 1), World::with);
    let outcome = world.by(strategy).until(secs(7200)).run().unwrap();
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
    let [back_off, retry_after, static_share, plain_rule, reserve, late_binding] = Strategy::ALL.map(measure);
    for outcome in [&back_off, &retry_after, &static_share, &plain_rule, &reserve, &late_binding] {
        assert_eq!(outcome.ok(), 860);
    }
    for outcome in [&back_off, &retry_after, &static_share, &plain_rule] {
        assert!(outcome.rejected() > 10, "{}", outcome.rejected());
    }
    assert_eq!((reserve.rejected(), late_binding.rejected()), (0, 0));
    let light = |outcome: &Outcome| outcome.fleets[1].wait_percentile(50).secs();
    assert!(light(&late_binding) < 0.7 * light(&reserve), "{} and {}", light(&late_binding), light(&reserve));
    assert!(static_share.finished().secs() > 5.0 * reserve.finished().secs(), "most of the bandwidth is unused");
}

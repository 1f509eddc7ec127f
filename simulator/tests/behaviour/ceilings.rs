//! Windows that are written far too high. The scheduler holds them to what the upstream allows.

use crate::prelude::*;

/// What the upstream allows in a period of ten seconds, and how long a world lasts.
const ALLOWED: f64 = 200.0;
const SECS: u64 = 600;

struct Figures {
    /// The share of calls after the first minute that were rejected, and the used share of what the
    /// upstream allows, in percent.
    rejected: f64,
    used: f64,
}

fn figures(what: &str, world: &World, allowed_a_second: f64) -> Figures {
    let outcome = world.run().unwrap();
    let late: Vec<&Call> = outcome.fleets[0].calls.iter().filter(|call| call.at >= secs(60)).collect();
    let ok = late.iter().filter(|call| call.ok).count();
    let rejected = 100.0 * (late.len() - ok) as f64 / late.len() as f64;
    let used = 100.0 * ok as f64 / (allowed_a_second * (SECS - 60) as f64);
    println!("{what}: {rejected:.2} % rejected, {used:.1} % used; {:?}", outcome.causes);
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
            let Figures { rejected, used } = figures(&format!("{what}, {times} times"), &world, ALLOWED / 10.0);
            assert!(rejected <= 0.5 && used >= 95.0, "{what}");
        }
    }
}

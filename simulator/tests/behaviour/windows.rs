//! Upstreams that count in windows which begin at any time, and that tell in their answers how much is
//! left and until when.

use crate::prelude::*;
use rampmeter_simulator::incident::Incident;
use rampmeter_upstream::Dialect;

/// Sixty calls in twenty seconds.
const CAPACITY: usize = 60;
const PERIOD: usize = 20;
const MINUTE: u64 = 60;
/// Worlds with windows of different phases.
const SEEDS: Range<u64> = 0..8;

fn policies(capacity: usize, phase: u64) -> Vec<rampmeter_upstream::Policy> {
    vec![format!("requests={capacity}/{PERIOD}s;phase={phase}ms").parse().unwrap()]
}

/// Ninety workers that never pause, for eleven minutes. The configuration has windows by the clock.
fn world(seed: u64) -> World {
    let algorithm = Algorithm::FixedWindow(Alignment::Epoch);
    let limit = LimitSpec { algorithm, ..limit("requests", CAPACITY as f64, Span::from_secs(PERIOD as u64)) };
    let resource = ResourceSpec::new(name("api"), vec![limit]);
    let behaviour =
        Behaviour { dialect: Dialect::Ietf, policies: policies(CAPACITY, phase(seed)), ..Behaviour::default() };
    World::new(resource, seed).until(secs(11 * MINUTE)).with(Fleet::new("workers", 90)).against(behaviour)
}

fn phase(seed: u64) -> u64 {
    1 + seed * 2_487 % (1000 * PERIOD as u64)
}

/// The shares of the workers' calls that were rejected, and of the available ones that were used, in percent,
/// over all seeds and within `during`, in which a window has `capacity`.
fn measure(what: &str, during: Range<Time>, capacity: usize, world: impl Fn(u64) -> World) -> (f64, f64) {
    let (mut ok, mut rejected, mut strangers) = (0, 0, 0);
    for seed in SEEDS {
        let outcome = world(seed).run().unwrap();
        let served = |fleet: &FleetOutcome| fleet.ok_between(during.start, during.end);
        let calls = outcome.fleets[0].calls.iter().filter(|call| during.contains(&call.at));
        rejected += calls.filter(|call| !call.ok).count();
        ok += served(&outcome.fleets[0]);
        strangers += outcome.fleets[1..].iter().map(served).sum::<usize>();
    }
    let windows = during.end.since(during.start).secs() / PERIOD as f64;
    let available = windows * (capacity * SEEDS.count()) as f64 - strangers as f64;
    let (share, used) = (100.0 * rejected as f64 / (ok + rejected) as f64, 100.0 * ok as f64 / available);
    println!("{what}: {ok} served, {share:.3} % rejected, {used:.2} % used");
    (share, used)
}

#[test]
fn windows_of_any_phase_are_used_up_without_a_rejection() {
    let (rejected, used) = measure("any phase", secs(MINUTE)..secs(11 * MINUTE), CAPACITY, world);
    assert!(rejected == 0.0 && used >= 99.0);
}

#[test]
fn beside_strangers_windows_are_used_up_with_few_rejections() {
    let arrivals = Arrivals::Poisson { per_second: 0.2 * CAPACITY as f64 / PERIOD as f64 };
    let strangers = Fleet { foreign: true, arrivals, ..Fleet::new("strangers", 20) };
    let during = secs(MINUTE)..secs(11 * MINUTE);
    let (rejected, used) = measure("strangers", during, CAPACITY, |seed| world(seed).with(strangers.clone()));
    assert!(rejected <= 1.5 && used >= 97.0);
}

#[test]
fn a_scheduler_that_is_killed_in_a_window_admits_no_call_too_many() {
    let (rejected, used) = measure("kills", secs(0)..secs(11 * MINUTE), CAPACITY, |seed| {
        (0..100).fold(world(seed), |world, kill| {
            world.with_incident(secs(3) + Span::from_millis(6_500 * kill + 97 * seed), Incident::Crash)
        })
    });
    assert!(rejected <= 0.01 && used >= 97.0);
}

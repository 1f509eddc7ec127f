//! Upstreams that differ from the configuration. The scheduler learns the difference from their
//! answers alone.

use crate::prelude::*;

const CAPACITY: f64 = 1000.0;
/// The rate of a thousand requests a minute.
const RATE: f64 = CAPACITY / 60.0;
const TEN_MINUTES: u64 = 600;

/// A resource whose buckets are probably full, which no answer has shown yet.
fn api(limit: LimitSpec) -> ResourceSpec {
    ResourceSpec { start: StartPolicy::Unproven, ..ResourceSpec::new(name("api"), vec![limit]) }
}

/// Workers that never pause, on an account of a thousand requests a minute.
fn world(workers: usize) -> World {
    let limit = limit("requests", CAPACITY, Span::from_secs(60));
    World::new(api(limit), 1).until(secs(TEN_MINUTES)).with(Fleet::new("workers", workers))
}

fn upstream(policy: &str) -> Behaviour {
    Behaviour { policies: vec![policy.parse().unwrap()], ..Behaviour::default() }
}

/// The results of the workers.
struct FleetFigures {
    rejected: usize,
    /// The share of their calls from some time on that was rejected, in percent.
    late: f64,
    /// The used share of the available calls, in percent.
    used: f64,
}

fn calls(outcome: &Outcome, during: Range<Time>) -> impl Iterator<Item = &Call> + Clone {
    outcome.fleets[0].calls.iter().filter(move |call| during.contains(&call.at))
}

fn percent(part: usize, whole: f64) -> f64 {
    100.0 * part as f64 / whole
}

/// The results of workers if `available` calls could have been served. Strangers' calls do not
/// count.
fn measure(what: &str, world: &World, settled: u64, available: f64) -> FleetFigures {
    let outcome = world.run().unwrap();
    let strangers: usize = outcome.fleets[1..].iter().map(|fleet| fleet.ok()).sum();
    let late = calls(&outcome, secs(settled)..Time::NEVER);
    let rejected_late = late.clone().filter(|call| !call.ok).count();
    let own = &outcome.fleets[0];
    let figures = FleetFigures {
        rejected: own.rejected(),
        late: percent(rejected_late, late.count() as f64),
        used: percent(own.ok(), available - strangers as f64),
    };
    let FleetFigures { rejected, late, used } = figures;
    println!("{what}: {rejected} × 429; from {settled} s on {late:.3} % of all calls; {used:.2} % used");
    figures
}

#[test]
fn strangers_on_the_account() {
    // the strangers' share, workers, most 429s and least use in percent
    for (share, workers, most, least) in
        [(0.2, 50, 1.0, 97.0), (0.2, 200, 1.0, 97.0), (0.02, 50, 0.1, 99.0), (0.02, 200, 0.1, 99.0)]
    {
        let arrivals = Arrivals::Poisson { per_second: RATE * share };
        let strangers = Fleet { foreign: true, arrivals, ..Fleet::new("strangers", 50) };
        let what = format!("{workers} workers, {share} strangers");
        let figures = measure(&what, &world(workers).with(strangers), 10, CAPACITY + RATE * 600.0);
        assert!(figures.late <= most && figures.used >= least, "{what}");
    }
}

/// Forty requests a minute, of which strangers take less than one.
#[test]
fn strangers_on_a_small_account() {
    let (rate, hours) = (40.0 / 60.0, 4);
    let (mut rejected, mut calls, mut available) = (0, 0, 0.0);
    for seed in 1..=6 {
        let arrivals = Arrivals::Poisson { per_second: rate * 0.02 };
        let strangers = Fleet { foreign: true, arrivals, ..Fleet::new("strangers", 50) };
        let limit = limit("requests", 40.0, Span::from_secs(60));
        let world = World::new(api(limit), seed).until(secs(3600 * hours));
        let outcome = world.with(Fleet::new("workers", 10)).with(strangers).run().unwrap();
        let own = &outcome.fleets[0];
        println!("  {} rejected of {}", own.rejected(), own.calls.len());
        (rejected, calls) = (rejected + own.rejected(), calls + own.calls.len());
        available += 40.0 + rate * 3600.0 * hours as f64 - outcome.fleets[1].ok() as f64;
    }
    let (share, used) = (percent(rejected, calls as f64), percent(calls - rejected, available));
    println!("a small account: {share:.3} % rejected, {used:.2} % used");
    assert!(share <= 0.1 && used >= 98.0);
}

#[test]
fn buckets_that_are_not_full_at_the_start() {
    for (start, most) in [(800.0, 8), (0.0, 15)] {
        for workers in [50, 200] {
            let world = world(workers).against(upstream(&format!("requests=1000/1m;start={start}")));
            let figures = measure(&format!("starts at {start}, {workers} workers"), &world, 10, start + RATE * 600.0);
            assert!(figures.rejected <= most && figures.used >= 99.5);
        }
    }
}

#[test]
fn a_rate_that_is_a_hundredth_lower() {
    let figures =
        measure("slower", &world(50).against(upstream("requests=1000/60606ms")), 0, CAPACITY + 1000.0 / 60.606 * 600.0);
    assert!(figures.late <= 0.06);
}

/// A refill in ticks of a second. An ideal scheduler needs 110 s for the 600 calls.
#[test]
fn a_refill_that_comes_in_ticks() {
    let ticking = || upstream("requests=50/10s;tick=1s");
    let resource = || api(limit("requests", 50.0, Span::from_secs(10)));
    let world =
        World::new(resource(), 1).with(Fleet { calls: Some(3), ..Fleet::new("workers", 200) }).against(ticking());
    let outcome = world.run().unwrap();
    let last = outcome.fleets[0].calls.iter().map(|call| call.at).max().unwrap();
    println!("ticks: {} × 429, the last call at {last}", outcome.rejected());
    assert!(outcome.rejected() <= 1 && last <= Time::ORIGIN + Span::from_millis(111_200));

    let world = World::new(resource(), 1).until(secs(600)).with(Fleet::new("workers", 50)).against(ticking());
    let figures = measure("ticks, once they are known", &world, 10, 50.0 + 5.0 * 600.0);
    assert!(figures.late == 0.0 && figures.used >= 99.5);
}

/// After the first refused calls, stock is held back that equals one tick, however long ticks are.
#[test]
fn ticks_of_other_lengths() {
    for (policy, capacity, period, most) in [
        ("requests=50/10s;tick=100ms", 50.0, 10, 2),
        ("requests=50/10s;tick=2s", 50.0, 10, 8),
        ("requests=1000/1m;tick=1s", CAPACITY, 60, 8),
        ("requests=1000/1m;tick=5s", CAPACITY, 60, 20),
    ] {
        let resource = api(limit("requests", capacity, Span::from_secs(period)));
        let world = World::new(resource, 1).until(secs(600)).with(Fleet::new("workers", 50));
        let available = capacity + capacity / period as f64 * 600.0;
        let figures = measure(policy, &world.against(upstream(policy)), 60, available);
        assert!(figures.rejected <= most && figures.used >= 99.0, "{policy}");
    }
}

/// This upstream drops the fraction of a token at each arrival. How much is lost depends on the
/// times of arrival.
#[test]
fn a_refill_that_drops_fractions() {
    let world = world(50).against(upstream("requests=1000/1m;whole")).observed_every(Span::from_secs(1));
    let outcome = world.run().unwrap();
    let late: Vec<_> = calls(&outcome, secs(30)..Time::NEVER).collect();
    let rejected = percent(late.iter().filter(|call| !call.ok).count(), late.len() as f64);
    // All unused capacity is still there.
    let left = outcome.levels.last().unwrap().micros["requests"] / 1_000_000;
    let used = percent(outcome.ok(), (outcome.ok() as u64 + left) as f64);
    println!("fractions: {rejected:.3} % from 30 s on, {} served, {left} left, {used:.2} % used", outcome.ok());
    assert!(rejected <= 1.0 && used >= 97.0);
}

#[test]
fn a_limit_that_is_halved_and_restored() {
    let policy = |text: &str| vec![text.parse().unwrap()];
    let changes = vec![(secs(120), policy("requests=500/1m")), (secs(420), policy("requests=1000/1m"))];
    let world = world(50).until(secs(900)).against(Behaviour { changes, ..upstream("requests=1000/1m") });
    let outcome = world.run().unwrap();
    let halved = calls(&outcome, secs(130)..secs(420));
    let rejected = percent(halved.clone().filter(|call| !call.ok).count(), halved.count() as f64);
    let back = calls(&outcome, secs(480)..secs(900)).filter(|call| call.ok).count();
    let back = percent(back, RATE * 420.0);
    println!("halved: {rejected:.3} % × 429; restored: {back:.2} % of the rate from 60 s on");
    assert!(rejected <= 1.0 && back >= 95.0);
}

#[test]
fn an_upstream_that_counts_what_it_rejects() {
    let world = world(50).against(upstream("requests=500/1m;leaky-bucket"));
    let figures = measure("counted", &world, 10, 500.0 + RATE / 2.0 * 600.0);
    assert!(figures.late <= 1.0 && figures.used >= 97.0);
}

#[test]
fn levels_that_are_asked_for_while_promises_are_out() {
    // A level is some milliseconds old when it is read: one call in ten thousand may meet that.
    let (mut calls, mut rejected) = (0.0, 0);
    for seed in 1..=5 {
        let limit = limit("requests", CAPACITY, Span::from_secs(60));
        let polled = World::new(api(limit), seed).until(secs(TEN_MINUTES)).with(Fleet::new("workers", 200));
        let available = CAPACITY + RATE * 600.0;
        let figures = measure("polled", &polled.polled_every(Span::from_secs(5)), 0, available);
        assert!(figures.used >= 99.9, "seed {seed}");
        (calls, rejected) = (calls + available, rejected + figures.rejected);
    }
    assert!(rejected as f64 <= calls / 10_000.0, "{rejected} of {calls}");
}

#[test]
fn an_exact_upstream_teaches_nothing() {
    for workers in [50, 200] {
        let figures = measure("an hour", &world(workers).until(secs(3600)), 0, CAPACITY + RATE * 3600.0);
        assert!(figures.rejected == 0 && figures.used >= 99.9);
    }
}

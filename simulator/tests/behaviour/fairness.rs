//! Fair shares: which client gets what, and when.

use crate::prelude::*;
use rampmeter_simulator::report::jain;

fn run(world: &World) -> Outcome {
    let outcome = world.run().unwrap();
    println!("{} ok, {} × 429", outcome.ok(), outcome.rejected());
    outcome.fleets.iter().for_each(describe);
    assert_eq!(outcome.rejected(), 0);
    outcome
}

#[test]
fn light_clients_hardly_wait_beside_a_heavy_backlog() {
    let hub = || shared(sentinel_hub());
    let heavy = Fleet { calls: Some(40), ..Fleet::new("heavy", 20) }.costing(PROCESSING_UNITS, amount(25.0));
    let light = Fleet { calls: Some(1), think: Span::from_secs(600), ..Fleet::new("light", 60) };
    let light = light.costing(PROCESSING_UNITS, amount(2.0));
    let among = |clients| {
        let fleets = [heavy.clone(), light.clone()].map(|fleet| fleet.of_clients(clients));
        run(&fleets.into_iter().fold(World::new(hub(), 1), World::with))
    };
    let (together, fair) = (among(Clients::Unnamed), among(Clients::Each));
    let light = |outcome: &Outcome| outcome.fleets[1].wait_percentile(50);
    assert!(
        light(&together) > Span::from_secs(10),
        "without shares, light clients wait for the backlog: {}",
        light(&together)
    );
    assert!(light(&fair) < Span::from_millis(50), "{}", light(&fair));
    let heavy = |outcome: &Outcome| outcome.fleets[0].calls.iter().map(|call| call.answered).max().unwrap();
    let delayed = heavy(&fair).since(Time::ORIGIN).secs() / heavy(&together).since(Time::ORIGIN).secs() - 1.0;
    println!("  heavy work is done {:.2} % later", delayed * 100.0);
    assert!(delayed < 0.02, "{delayed}");
}

#[test]
fn both_limits_are_busy_while_costs_shift() {
    let minute = Span::from_secs(60);
    let hub = || shared(vec![limit("requests", 1000.0, minute), limit(PROCESSING_UNITS, 1000.0, minute)]);
    let cost = |units| CostModel::new().with(PROCESSING_UNITS, amount(units));
    let shift = Some(Shift { every: minute, to: cost(4.0) });
    let fleet = Fleet { cost: cost(0.2), shift, ..Fleet::new("workers", 500) };
    let among = |clients| run(&World::new(hub(), 1).with(fleet.clone().of_clients(clients)).until(secs(1200)));
    let (together, fair) = (among(Clients::Unnamed), among(Clients::Each));
    let minutes: Vec<f64> = (2..20).map(|number| used_in(&fair.fleets[0], number)).collect();
    println!("  {minutes:.3?}");
    assert!(minutes.iter().all(|used| *used >= 0.97), "{minutes:?}");
    // First come, first served: calls that need little of the scarcer unit queue behind those that
    // need much.
    let more = fair.ok() as f64 / together.ok() as f64 - 1.0;
    println!("  {:.1} % more calls", more * 100.0);
    assert!(more > 0.05, "{more}");
}

/// The share of its binding limit that a fleet uses in a minute, if calls cost 0.2 or 4 processing
/// units.
fn used_in(fleet: &FleetOutcome, minute: u64) -> f64 {
    let calls = fleet.calls.iter().filter(|call| (secs(60 * minute)..secs(60 * minute + 60)).contains(&call.at));
    let units = |call: &Call| amount_of(&call.cost, PROCESSING_UNITS).units();
    let (count, units) = calls.fold((0.0, 0.0), |(count, sum), call| (count + 1.0, sum + units(call)));
    f64::max(count, units) / 1000.0
}

#[test]
fn each_client_gets_its_fair_share() {
    let second = Span::from_secs(1);
    let api = shared(vec![limit("requests", 100.0, second)]);
    let modest = (0..18).map(|number| Fleet::new(&format!("modest-{number}"), 10).of_clients(Clients::One));
    let greedy = (0..2).map(|number| Fleet::new(&format!("greedy-{number}"), 100).of_clients(Clients::One));
    let world = modest.chain(greedy).fold(World::new(api, 1), World::with).until(secs(70));
    let outcome = run(&world);
    let served: Vec<f64> = outcome.fleets.iter().map(|fleet| fleet.ok_between(secs(10), secs(70)) as f64).collect();
    let fair = served.iter().sum::<f64>() / served.len() as f64;
    println!("{served:?}, Jain {}", jain(&served));
    assert!(served.iter().all(|share| (share / fair - 1.0).abs() <= 0.01), "{served:?}");
    assert!(jain(&served) >= 0.99);
}

/// How first estimates compare with real waits, in percent.
struct Honesty {
    /// The part of waits shorter than their estimates. A wait within a millisecond of its estimate
    /// counts half.
    below: f64,
    /// The part of waits that differ from their estimates by at most a fifth, or by a tenth of a
    /// second.
    near: f64,
}

impl Honesty {
    fn of(waits: &[(f64, f64)]) -> Self {
        let share = |count: &dyn Fn(f64, f64) -> f64| {
            waits.iter().map(|(wait, estimate)| count(*wait, *estimate)).sum::<f64>() / waits.len() as f64 * 100.0
        };
        let below = share(&|wait, estimate| match wait - estimate {
            off if off.abs() < 0.001 => 0.5,
            off => f64::from(off < 0.0),
        });
        let near = share(&|wait, estimate| f64::from((wait - estimate).abs() <= (0.2 * estimate).max(0.1)));
        Honesty { below, near }
    }
}

/// Real waits and first estimates, in seconds, of the requests that reached the scheduler from
/// `from` until `to`.
fn waits(outcome: &Outcome, from: Time, to: Time) -> impl Iterator<Item = (f64, f64)> {
    let arrived = outcome.requests.iter().filter(move |request| (from..to).contains(&request.arrived));
    arrived.filter_map(|request| Some((request.granted?.start.since(request.arrived).secs(), request.estimate?.secs())))
}

/// Under a steady load: first come first served, among equal clients, and among unequal ones.
#[test]
fn waits_are_close_to_their_first_estimates() {
    let hub = || shared(sentinel_hub());
    let workers = |count: usize, units: f64, name: &str| {
        let fleet = Fleet { think: Span::from_secs(20), ..Fleet::new(name, count) };
        fleet.costing(PROCESSING_UNITS, amount(units))
    };
    // Their processing units and requests are scarce in turn.
    let mixed = [(150, 2.0), (100, 6.0)].map(|(count, units)| workers(count, units, &format!("{units}")));
    let unequal = [(5, 2.0), (10, 6.0), (20, 1.0), (40, 4.0), (80, 2.0), (160, 3.0)];
    let unequal = unequal.map(|(count, units)| workers(count, units, &format!("{count}")).of_clients(Clients::One));
    let alike = |clients| vec![workers(300, 2.0, "workers").of_clients(clients)];
    let mixed_clients = mixed.clone().map(|fleet| fleet.of_clients(Clients::Each));
    let table = [
        ("in turn", alike(Clients::Unnamed), 95.0),
        ("in turn, of different costs", mixed.to_vec(), 95.0),
        ("equal clients", alike(Clients::Each), 95.0),
        ("unequal clients", unequal.to_vec(), 95.0),
        // Estimates do not foresee which of both limits will be scarce.
        ("equal clients of different costs", mixed_clients.to_vec(), 50.0),
    ];
    for (what, fleets, least_near) in table {
        let world = |seed| fleets.iter().cloned().fold(World::new(hub(), seed), World::with).until(secs(2000));
        let outcomes: Vec<Outcome> = (0..2).map(|seed| world(seed).run().unwrap()).collect();
        let waits: Vec<(f64, f64)> =
            outcomes.iter().flat_map(|outcome| waits(outcome, secs(500), secs(1800))).collect();
        let Honesty { below, near } = Honesty::of(&waits);
        println!("{what}: of {} waits {below:.1} % below, {near:.1} % near", waits.len());
        assert!((45.0..=66.0).contains(&below) && near >= least_near, "{what}");
    }
}

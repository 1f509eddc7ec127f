//! Small worlds by the thousand, each different. A judge that shares no code with the core finds no
//! fault in them, and the same seed gives the same world.
//!
//! `RAMPMETER_SEEDS=0..1000000 cargo test --release -p rampmeter-simulator --test behaviour --
//! --nocapture random_worlds` looks at a million; a violation prints the command that repeats it.

use crate::prelude::*;
use crate::{counted, pools};
use rampmeter_protocol::request::Mode;
use std::sync::atomic::{AtomicU64, Ordering};

/// Together with the seeds of [incidents](crate::incidents), these are ten thousand.
const SEEDS: Range<u64> = 0..9_000;
/// Seeds beyond these that once showed a violation.
const FOUND: [u64; 5] = [90_996, 152_028, 153_447, 387_995, 893_792];
/// The seeds between two lines of progress.
const PROGRESS: u64 = 50_000;
/// One seed in this many runs twice.
const TWICE: u64 = 10;

fn millis(dice: &mut Rng, least: u64, most: u64) -> Span {
    Span::from_millis(dice.number(least, most))
}

/// An amount of at most `most`, with a fraction now and then.
fn amount(dice: &mut Rng, least: u64, most: u64) -> Amount {
    let whole = dice.number(least, most) * 1_000_000;
    let fraction = if dice.number(0, 3) == 0 && whole > 0 { dice.number(0, 999_999) } else { 0 };
    Amount::from_micros(whole - fraction.min(whole)).unwrap()
}

/// If all delays are equal, no margin is needed; if they vary, the default one covers them.
pub(crate) fn network(dice: &mut Rng) -> (Network, Margin) {
    match dice.number(0, 1) {
        0 => {
            let late = Delay::fixed(millis(dice, 0, 30));
            let fixed = Network { request: late, grant: late, call: late, response: late, ..Network::default() };
            (fixed, Margin::Fixed(Amount::ZERO))
        }
        _ => (Network { request: Delay::up_to(millis(dice, 0, 200)), ..Network::default() }, Margin::Auto),
    }
}

/// Capacities of which a tenth is more than the default margin.
fn limit(dice: &mut Rng, number: u64, margin: Margin) -> LimitSpec {
    let unit = if number == 0 { name("requests") } else { name(&format!("unit-{}", number % 3)) };
    let capacity = Amount::from_micros(dice.number(20, 200) * 1_000_000).unwrap();
    let period = millis(dice, 2_000, 60_000);
    LimitSpec { margin, ..LimitSpec::new(name(&format!("limit-{number}")), unit, capacity, period) }
}

fn resource(dice: &mut Rng, margin: Margin) -> ResourceSpec {
    let limits = (0..dice.number(1, 4)).map(|number| limit(dice, number, margin)).collect();
    let class = |number: u64, dice: &mut Rng| ClassSpec {
        headroom: (number * dice.number(0, 10)) as f64 / 100.0,
        max_starvation: (dice.number(0, 2) == 0).then(|| millis(dice, 500, 20_000)),
        ..ClassSpec::new(name(&format!("class-{number}")))
    };
    let classes = (0..dice.number(1, 3)).map(|number| class(number, dice)).collect();
    let mut weight = |number| (format!("fleet-{number}"), Weight::new(dice.number(1, 40) as f64 / 10.0).unwrap());
    let weights = [0, 1, 2].map(&mut weight).into();
    ResourceSpec {
        classes,
        start: if dice.number(0, 3) == 0 { StartPolicy::Empty } else { StartPolicy::Full },
        horizon: millis(dice, 0, 200),
        max_ahead: Some(Span::from_secs(86_400)),
        fair_share: Some(FairShare { label: "client".to_owned(), weights }),
        ..ResourceSpec::new(name("api"), limits)
    }
}

/// A call costs at most what every limit of its units can hold besides its margin. No margin covers
/// a call that takes the margin too.
fn cost(dice: &mut Rng, resource: &ResourceSpec) -> CostModel {
    let (mut model, mut units) = (CostModel::new(), Vec::new());
    for limit in &resource.limits {
        let unit = limit.unit.to_string();
        if dice.number(0, 2) == 0 || units.contains(&unit) {
            continue;
        }
        let capacities = resource.limits.iter().filter(|other| other.unit == limit.unit).map(|other| other.capacity);
        let beside_margin = if limit.margin == Margin::Auto { 9 } else { 10 };
        let most = capacities.min().unwrap().micros() / 10_000_000 * beside_margin;
        let most = if dice.number(0, 5) == 0 { most } else { most / 8 };
        let draw = match dice.number(0, 3) {
            0 => Draw::Between(Amount::ZERO, amount(dice, 0, most)),
            1 => Draw::OneOf(vec![amount(dice, 0, most), amount(dice, 0, most)]),
            _ => Draw::Always(amount(dice, 0, most)),
        };
        model = model.with(&unit, draw);
        units.push(unit);
    }
    model
}

/// A share of all messages, up to a fifth.
fn part(dice: &mut Rng) -> f64 {
    dice.number(0, 20) as f64 / 100.0
}

/// If messages are lost, doubled or reordered, a call may be late by the time that another request
/// takes. No margin covers that.
fn with_faults(dice: &mut Rng, network: Network) -> Network {
    Network { loss: part(dice), duplicates: part(dice), reordering: part(dice), ..network }
}

fn crashes(dice: &mut Rng) -> Option<Crashes> {
    let (every, pause) = (millis(dice, 5_000, 60_000), millis(dice, 0, 10_000));
    let until = Time::ORIGIN + Span::from_secs(60);
    (dice.number(0, 2) == 0).then_some(Crashes { every, pause, until })
}

fn arrivals(dice: &mut Rng) -> Arrivals {
    match dice.number(0, 5) {
        0 => Arrivals::Poisson { per_second: dice.number(1, 50) as f64 / 10.0 },
        1 => Arrivals::Bursts { calls: dice.number(1, 10) as u32, every: millis(dice, 100, 10_000) },
        _ => Arrivals::Loop,
    }
}

fn fleet(dice: &mut Rng, number: u64, resource: &ResourceSpec) -> Fleet {
    let class = &resource.classes[dice.number(0, resource.classes.len() as u64 - 1) as usize];
    let clients = [Clients::Unnamed, Clients::One, Clients::Each][dice.number(0, 2) as usize];
    let every = millis(dice, 1_000, 30_000);
    Fleet {
        class: Some(class.name.to_string()),
        clients,
        cost: cost(dice, resource),
        shift: (dice.number(0, 3) == 0).then(|| Shift { every, to: cost(dice, resource) }),
        mode: if dice.number(0, 3) == 0 { Mode::Reserve } else { Mode::Wait },
        arrivals: arrivals(dice),
        calls: Some(dice.number(1, 4) as u32),
        think: millis(dice, 0, 5_000),
        from: Time::ORIGIN + millis(dice, 0, 5_000),
        ..Fleet::new(&format!("fleet-{number}"), dice.number(1, 12) as usize)
    }
}

/// A world, its limits, and what decides by which rules it is judged.
pub(crate) struct RandomWorld {
    pub(crate) world: World,
    pub(crate) resource: ResourceSpec,
    /// Whether its network has faults.
    pub(crate) faulty: bool,
    pub(crate) pool: pools::Pool,
}

pub(crate) fn world(seed: u64) -> RandomWorld {
    let dice = &mut Rng::new(seed);
    let (network, margin) = network(dice);
    let mut resource = resource(dice, margin);
    let mut fleets: Vec<Fleet> = (0..dice.number(1, 4)).map(|number| fleet(dice, number, &resource)).collect();
    let faulty = dice.number(0, 4) == 0;
    let mut network = if faulty { with_faults(dice, network) } else { network };
    if faulty {
        fleets.iter_mut().for_each(|fleet| fleet.crashes = crashes(dice));
    }
    let until = counted::vary(seed, &mut resource, &mut network, &mut fleets);
    let pool = pools::vary(seed, &mut resource, &mut fleets);
    let world = pool.in_world(World::new(resource.clone(), seed).across(network).until(until));
    RandomWorld { world: fleets.into_iter().fold(world, World::with), resource, faulty, pool }
}

/// The fault of the world of this seed.
pub(crate) fn fault(seed: u64) -> Option<String> {
    let RandomWorld { world, faulty, pool, .. } = world(seed);
    let judge = |world: &World, outcome: &Outcome| match pool.troubled {
        _ if faulty => judge_grants(world, outcome),
        Some(_) => pool.judge(world, outcome, true),
        None => judge(world, outcome),
    };
    let outcome = world.run().map_err(|error| error.to_string());
    let again = (seed.is_multiple_of(TWICE)).then(|| world.run().unwrap().fingerprint());
    match outcome {
        Ok(outcome) if again.is_some_and(|again| again != outcome.fingerprint()) => Some("runs differ".to_owned()),
        Ok(outcome) => judge(&world, &outcome).err().map(|violation| violation.to_string()),
        Err(error) => Some(error),
    }
}

fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(seeds) = std::env::var("RAMPMETER_SEEDS") else { return usual };
    let (first, end) = seeds.split_once("..").expect("RAMPMETER_SEEDS is like 0..1000");
    first.parse().unwrap()..end.parse().unwrap()
}

#[test]
fn worlds_that_have_shown_a_violation_show_none() {
    for seed in FOUND {
        assert_eq!(fault(seed), None, "seed {seed}");
    }
}

#[test]
fn no_world_shows_a_violation() {
    look_at("random_worlds", SEEDS, fault);
}

/// Looks at the worlds of these seeds, or of the seeds in the environment. `tests` names the tests
/// in the command that repeats a seed.
pub(crate) fn look_at(tests: &str, usual: Range<u64>, fault: fn(u64) -> Option<String>) {
    let seeds = seeds(usual);
    let next = AtomicU64::new(seeds.start);
    let look = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if seed.is_multiple_of(PROGRESS) {
                println!("seed {seed} of {seeds:?}");
            }
            let again = format!(
                "RAMPMETER_SEEDS={seed}..{} cargo test -p rampmeter-simulator --test behaviour {tests}",
                seed + 1
            );
            assert_eq!(fault(seed), None, "seed {seed}; again: {again}");
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(look))));
}

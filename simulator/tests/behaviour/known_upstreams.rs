//! Random worlds around the upstreams that ship, made smaller so that few workers meet every limit.
//! `RAMPMETER_SEEDS` names other seeds, as for all random worlds.

use crate::prelude::*;
use crate::{counted, random_worlds};

const SEEDS: Range<u64> = 0..500;
/// A seed of its own, so that these worlds differ from the others of a seed.
const OWN: u64 = 0x5EED_0F48;

/// An upstream, and its limits as a configuration should have them.
struct Known {
    file: &'static str,
    /// Numbers in the file, and smaller ones.
    smaller: &'static [(&'static str, &'static str)],
    limits: fn() -> Vec<LimitSpec>,
    /// The calls of a fleet, and their costs.
    calls: fn(&mut Rng, Fleet) -> Fleet,
}

const KNOWN: [Known; 6] = [
    Known {
        file: include_str!("../../upstream/presets/github.toml"),
        smaller: &[("=5000/1h", "=40/30s"), ("=900/1m", "=30/10s"), ("= 100", "= 5")],
        limits: || {
            vec![
                counting("core", "requests", 40, 30, Algorithm::FixedWindow(Alignment::FirstUse)),
                counting("points", "points", 30, 10, Algorithm::SlidingWindow),
                counting("in-flight", "requests", 5, 60, Algorithm::Concurrency),
            ]
        },
        calls: |dice, fleet| match dice.number(0, 1) {
            0 => labelled(fleet, "method", "GET").costing("points", whole(1)),
            _ => labelled(fleet, "method", "PATCH").costing("points", whole(5)),
        },
    },
    Known {
        file: include_str!("../../upstream/presets/discord.toml"),
        smaller: &[("=50/1s", "=8/1s")],
        limits: || {
            vec![
                for_each(counting("roles", "requests", 10, 10, Algorithm::SlidingWindow), "guild", "roles"),
                for_each(
                    counting("messages", "requests", 5, 5, Algorithm::FixedWindow(Alignment::FirstUse)),
                    "channel",
                    "messages",
                ),
                counting("global", "requests", 8, 1, Algorithm::SlidingWindow),
            ]
        },
        calls: |dice, fleet| match dice.number(0, 2) {
            0 => several(dice, labelled(fleet, "route", "roles"), "guild"),
            1 => several(dice, labelled(fleet, "route", "messages"), "channel"),
            _ => labelled(fleet, "route", "gateway"),
        },
    },
    Known {
        file: include_str!("../../upstream/presets/openai.toml"),
        smaller: &[("=500/1m", "=30/30s"), ("=30000/1m", "=20000/30s")],
        limits: || {
            let key = |limit: LimitSpec| LimitSpec { applies: keyed("model"), ..limit };
            vec![
                key(counting("requests", "requests", 30, 30, Algorithm::TokenBucket)),
                key(counting("tokens", "tokens", 20_000, 30, Algorithm::TokenBucket)),
            ]
        },
        calls: |dice, fleet| several(dice, fleet.costing("tokens", Draw::Between(whole(50), whole(4000))), "model"),
    },
    Known {
        file: include_str!("../../upstream/presets/anthropic.toml"),
        smaller: &[("=50/1m", "=30/30s"), ("=30000/1m", "=60000/30s"), ("=8000/1m", "=20000/30s")],
        limits: || {
            vec![
                counting("requests", "requests", 30, 30, Algorithm::TokenBucket),
                counting("input-tokens", "input-tokens", 60_000, 30, Algorithm::TokenBucket),
                counting("output-tokens", "output-tokens", 20_000, 30, Algorithm::TokenBucket),
            ]
        },
        calls: |dice, fleet| {
            let most = whole(dice.number(100, 4000) as u32);
            let fleet = fleet.costing("input-tokens", Draw::Between(whole(100), whole(9000)));
            fleet.costing("output-tokens", Draw::Between(whole(10), most))
        },
    },
    Known {
        file: include_str!("../../upstream/presets/ietf.toml"),
        smaller: &[("=100/1m", "=25/10s"), ("=100000/24h", "=60/60s"), ("=30/1m", "=8/10s")],
        limits: || {
            let tenant = counting("tenant", "requests", 8, 10, Algorithm::FixedWindow(Alignment::Epoch));
            vec![
                counting("burst", "requests", 25, 10, Algorithm::FixedWindow(Alignment::Epoch)),
                counting("daily", "requests", 60, 60, Algorithm::FixedWindow(Alignment::Epoch)),
                LimitSpec { applies: keyed("tenant"), ..tenant },
            ]
        },
        calls: |dice, fleet| several(dice, fleet, "tenant"),
    },
    Known {
        file: include_str!("../../upstream/presets/shopify.toml"),
        smaller: &[("=1000/20s", "=200/10s")],
        limits: || vec![counting("points", "points", 200, 10, Algorithm::LeakyBucket)],
        calls: |_, fleet| fleet.costing("points", Draw::Between(whole(1), whole(60))),
    },
];

fn whole(units: u32) -> Amount {
    Amount::new(f64::from(units)).unwrap()
}

fn counting(limit: &str, unit: &str, capacity: u32, secs: u64, algorithm: Algorithm) -> LimitSpec {
    LimitSpec { algorithm, ..LimitSpec::new(name(limit), name(unit), whole(capacity), Span::from_secs(secs)) }
}

fn keyed(label: &str) -> Applies {
    Applies { key: vec![label.to_owned()], ..Applies::default() }
}

fn for_each(limit: LimitSpec, label: &str, route: &str) -> LimitSpec {
    let matching = [("route".to_owned(), Pattern::Exact(route.to_owned()))].into();
    LimitSpec { applies: Applies { matching, ..keyed(label) }, ..limit }
}

fn labelled(mut fleet: Fleet, label: &str, value: &str) -> Fleet {
    fleet.labels.insert(label.to_owned(), Values::One(value.to_owned()));
    fleet
}

/// Workers have one of a few values of this label.
fn several(dice: &mut Rng, mut fleet: Fleet, label: &str) -> Fleet {
    let values = NonZeroU32::new(dice.number(1, 4) as u32).unwrap();
    fleet.labels.insert(label.to_owned(), Values::Of { of: values });
    fleet
}

/// A world around one of the upstreams, and its limits.
pub(crate) fn world(seed: u64, discover: Discover) -> (World, ResourceSpec) {
    let dice = &mut Rng::new(seed ^ OWN);
    let (mut network, margin) = random_worlds::network(dice);
    let known = &KNOWN[dice.number(0, KNOWN.len() as u64 - 1) as usize];
    let mut resource = ResourceSpec { discover, ..ResourceSpec::new(name("api"), (known.limits)()) };
    // Starts have to avoid the ends of clock windows, whatever the delays.
    let by_clock = |limit: &LimitSpec| limit.algorithm == Algorithm::FixedWindow(Alignment::Epoch);
    resource.limits.iter_mut().filter(|limit| !by_clock(limit)).for_each(|limit| limit.margin = margin);
    counted::suit(dice, &mut resource, &mut network);
    let behaviour = Behaviour { preset: Some(preset(known)), ..Behaviour::default() };
    let mut world = World::new(resource.clone(), seed).across(network).against(behaviour);
    for number in 0..dice.number(1, 4) {
        world = world.with(fleet(dice, number, known));
    }
    (world, resource)
}

fn preset(known: &Known) -> Preset {
    let smaller = known.smaller.iter().fold(known.file.to_owned(), |file, (number, smaller)| {
        assert!(file.contains(number), "{number}");
        file.replacen(number, smaller, 1)
    });
    smaller.parse().unwrap()
}

fn fleet(dice: &mut Rng, number: u64, known: &Known) -> Fleet {
    let arrivals = match dice.number(0, 3) {
        0 => Arrivals::Poisson { per_second: dice.number(1, 40) as f64 / 10.0 },
        _ => Arrivals::Loop,
    };
    let fleet = Fleet {
        arrivals,
        clients: Clients::Unnamed,
        calls: Some(dice.number(2, 12) as u32),
        think: Span::from_millis(dice.number(0, 3000)),
        ..Fleet::new(&format!("fleet-{number}"), dice.number(2, 12) as usize)
    };
    (known.calls)(dice, fleet)
}

/// The fault of the world of this seed.
fn fault(seed: u64) -> Option<String> {
    let (world, _) = world(seed, Discover::Nothing);
    let outcome = world.run().unwrap();
    judge(&world, &outcome).err().map(|violation| violation.to_string())
}

/// Discord never tells when the windows of its global limit begin. A call counts for a second, and
/// for as much longer as delays may differ.
#[test]
fn discord_is_used_up_as_far_as_delays_are_alike() {
    let from = Time::ORIGIN + Span::from_secs(30);
    let until = from + Span::from_secs(300);
    let global = counting("global", "requests", 50, 1, Algorithm::SlidingWindow);
    // By how many milliseconds delays of answers, calls and responses differ; the jitter; the least
    // use in percent.
    for (differ, jitter, least) in [(0, 1, 99.5), (3, 10, 98.5), (20, 50, 95.0)] {
        let delay = |least| Delay { least: Span::from_millis(least), most: Span::from_millis(least + differ) };
        let limit = LimitSpec { jitter: Span::from_millis(jitter), ..global.clone() };
        let network = Network { grant: delay(1), call: delay(5), response: delay(80), ..Network::default() };
        let behaviour = Behaviour { preset: Some(KNOWN[1].file.parse().unwrap()), ..Behaviour::default() };
        let fleet = labelled(Fleet::new("workers", 100), "route", "gateway");
        let world = World::new(ResourceSpec::new(name("api"), vec![limit]), 1).across(network).against(behaviour);
        let outcome = world.with(fleet).until(until).run().unwrap();
        let used = outcome.fleets[0].ok_between(from, until) as f64 / 150.0;
        println!("Discord, delays that differ by {differ} ms: {used:.2} % used, {} refused", outcome.rejected());
        assert!(outcome.rejected() == 0 && used >= least);
    }
}

#[test]
fn no_world_around_a_known_upstream_shows_a_violation() {
    random_worlds::look_at("known_upstreams", SEEDS, fault);
}

//! Fleets of workers against an exact upstream: the scheduler causes no 429 and uses the full rate.
//!
//! Grants are delivered up to 20 ms late at random, so calls reach the upstream as late. The margin
//! is the default one.

use crate::prelude::*;

const SEEDS: Range<u64> = 0..5;

/// Sentinel Hub's limits, urgent and bulk work.
fn hub() -> ResourceSpec {
    with_bulk(sentinel_hub())
}

fn with_bulk(limits: Vec<LimitSpec>) -> ResourceSpec {
    let bulk = ClassSpec { headroom: 0.2, ..ClassSpec::new(name("bulk")) };
    ResourceSpec { classes: vec![ClassSpec::new(name("urgent")), bulk], ..ResourceSpec::new(name("api"), limits) }
}

/// Runs a world under several seeds. No seed may see a 429.
fn check(world: impl Fn(u64) -> World, judge: impl Fn(&Outcome)) {
    for seed in SEEDS {
        let outcome = world(seed).run().unwrap();
        println!(
            "seed {seed}: {} ok, {} × 429, finished after {}",
            outcome.ok(),
            outcome.rejected(),
            outcome.finished()
        );
        outcome.fleets.iter().for_each(describe);
        assert_eq!(outcome.rejected(), 0, "seed {seed}");
        judge(&outcome);
    }
}

#[test]
fn a_job_of_equal_calls_takes_as_long_as_the_limits_do() {
    // Workers, calls of each, seconds at most: all but the first 50 at five in a second, and the
    // margin.
    for (workers, calls, at_most) in [(200, 5, 190.5), (50, 10, 90.5)] {
        let fleet = Fleet { calls: Some(calls), ..Fleet::new("workers", workers) };
        let fleet = fleet.costing(PROCESSING_UNITS, amount(2.0));
        check(
            |seed| World::new(hub(), seed).with(fleet.clone()),
            |outcome| {
                assert_eq!(outcome.ok(), workers * calls as usize);
                assert!(outcome.finished().secs() <= at_most, "{} s", outcome.finished().secs());
            },
        );
    }
}

#[test]
fn light_urgent_calls_hardly_wait_beside_heavy_bulk() {
    // 60 workers that call every 20 s make three requests in a second: 60 % of the requests.
    let light = Fleet { think: Span::from_secs(20), ..Fleet::new("light", 60) }.of_class("urgent");
    let light = light.costing(PROCESSING_UNITS, amount(2.0));
    let heavy = Fleet::new("heavy", 20).of_class("bulk").costing(PROCESSING_UNITS, amount(25.0));
    check(
        |seed| World::new(hub(), seed).with(light.clone()).with(heavy.clone()).until(secs(600)),
        |outcome| {
            let [light, heavy] = &outcome.fleets[..] else { panic!("two fleets") };
            assert!(light.wait_percentile(99) < Span::from_millis(100), "{}", light.wait_percentile(99));
            // The burst of the first minute does not count.
            let (from, to) = (secs(60), secs(600));
            let used = 2.0 * light.ok_between(from, to) as f64 + 25.0 * heavy.ok_between(from, to) as f64;
            let share = used / (20.0 * to.since(from).secs());
            println!("  {:.2} % of the processing units", share * 100.0);
            assert!(share > 0.99, "{share}");
        },
    );
}

#[test]
fn urgent_calls_pass_saturating_bulk_which_gets_all_the_rest() {
    let resource = || with_bulk(vec![limit("requests", 1000.0, Span::from_secs(60))]);
    let bulk = Fleet::new("bulk", 100).of_class("bulk");
    let urgent = Fleet { think: Span::from_secs(7), ..Fleet::new("urgent", 5) }.of_class("urgent");
    check(
        |seed| World::new(resource(), seed).with(bulk.clone()).with(urgent.clone()).until(secs(900)),
        |outcome| {
            let [bulk, urgent] = &outcome.fleets[..] else { panic!("two fleets") };
            // Twenty milliseconds, and the way there and back.
            assert!(urgent.wait_percentile(99) < Span::from_millis(20 + 2), "{}", urgent.wait_percentile(99));
            let (from, to) = (secs(120), secs(900));
            let refill = 1000.0 / 60.0 * to.since(from).secs();
            let share = bulk.ok_between(from, to) as f64 / (refill - urgent.ok_between(from, to) as f64);
            println!("  {:.3} % of the rest", share * 100.0);
            assert!(share >= 0.995, "{share}");
        },
    );
}

#[test]
fn workers_come_and_go_by_the_thousand() {
    let steady = Fleet::new("steady", 10).costing(PROCESSING_UNITS, amount(2.0));
    let surge = Fleet { from: secs(30), until: secs(150), ..Fleet::new("surge", 1990) };
    let surge = surge.costing(PROCESSING_UNITS, amount(2.0));
    check(
        |seed| World::new(hub(), seed).with(steady.clone()).with(surge.clone()).until(secs(300)),
        |outcome| {
            let all = |from, to| outcome.fleets.iter().map(|fleet| fleet.ok_between(from, to)).sum::<usize>();
            // Five calls a second are served, to many workers and to few.
            for (from, to) in [(secs(40), secs(150)), (secs(160), secs(300))] {
                let share = all(from, to) as f64 / (5.0 * to.since(from).secs());
                println!("  {:.2} % of the requests from {from} to {to}", share * 100.0);
                assert!(share > 0.99, "{share}");
            }
        },
    );
}

/// The judge bites: its checks fail for a scheduler without a margin.
#[test]
fn without_a_margin_lateness_is_answered_with_429() {
    let mut resource = hub();
    resource.limits.iter_mut().for_each(|limit| limit.margin = Margin::Fixed(Amount::ZERO));
    let fleet = Fleet { calls: Some(5), ..Fleet::new("workers", 200) };
    let outcome = World::new(resource, 1).with(fleet).run().unwrap();
    assert!(outcome.rejected() > 0);
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let fleet = Fleet { think: Span::from_secs(1), calls: Some(3), ..Fleet::new("workers", 40) };
    let run = |seed| World::new(hub(), seed).with(fleet.clone()).run().unwrap();
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

//! The stock held back, so that a late call finds as much as it was promised.

use crate::common::{World, amount, limit, ms, play, resource, span, wish};
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::ids::Connection;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::{Algorithm, LimitSpec, Margin};
use rampmeter_scheduler_core::scheduler::Scheduler;

#[test]
fn the_margin_is_what_comes_in_while_a_call_is_late_and_one_more() {
    // Capacity, period in ms, margin.
    let table = [
        (50.0, 10_000, 1.25),
        (200.0, 10_000, 2.0),
        (1000.0, 60_000, 1.833_334),
        (400_000.0, 744 * 3_600_000, 1.007_468),
        (100_000.0, 1_000, 5_001.0),
        // At most a tenth of the capacity.
        (10.0, 1_000, 1.0),
        (5.0, 5_000, 0.5),
        (1000.0, 100, 100.0),
        (0.000_019, 1_000, 0.000_001),
        (0.000_001, 1_000, 0.0),
    ];
    for (capacity, period, margin) in table {
        let limit = LimitSpec { margin: Margin::Auto, ..limit("requests", capacity, span(period)) };
        let limits = Resource::new(&resource(vec![limit])).unwrap();
        assert_eq!(limits.limits()[0].margin(), amount(margin), "{capacity} in {period} ms");
    }
}

#[test]
fn a_full_bucket_holds_all_but_the_margin() {
    let margin = Margin::Fixed(amount(2.5));
    play(
        &resource(vec![LimitSpec { margin, ..limit("requests", 10.0, span(1000)) }]),
        "
        0    levels                              -> requests=7.5
        0    reserve a requests=7                -> a@0
        0    reserve b                           -> b@50
        1000 levels                              -> requests=7.5
        # What fits only without the margin takes a full bucket, and a debt of at most the margin.
        1000 reserve c requests=10               -> c@1000
        1000 levels                              -> requests=-2.5
        ",
    );
}

/// A world of one limit with a margin that is measured.
fn measured(algorithm: Algorithm, capacity: f64, period: u64) -> World {
    let limit = LimitSpec { margin: Margin::Auto, algorithm, ..limit("requests", capacity, span(period)) };
    World::new(&resource(vec![limit]))
}

/// A client, and after how many milliseconds its calls are sent and answered.
type Client = (u16, u64, u64);

/// Lets each client make twenty-one calls within the second that begins at `from`.
fn calls(world: &mut World, from: u64, clients: &[Client]) {
    for number in 0..21 {
        let id = |client: u16| format!("{from}-{client}-{number}");
        for (client, ..) in clients {
            world.ask(ms(from + number * 40), &wish(Mode::Reserve, &[]).named(&id(*client)).by(Connection(*client)));
        }
        for (client, late, elapsed) in clients {
            let [late, elapsed] = [late, elapsed].map(|millis| Span::from_millis(*millis));
            world.settle_timed(ms(from + number * 40 + 30), &id(*client), late, elapsed);
        }
    }
}

/// The margin of the first limit, and what could be spent at `now`, in hundredths.
fn margin_and_level(world: &mut World, now: u64) -> (i64, i64) {
    let limit = &world.scheduler.limit_status(ms(now))[0];
    ((limit.margin * 100.0).round() as i64, (limit.level * 100.0).round() as i64)
}

#[test]
fn the_margin_follows_the_delays_that_workers_measure() {
    // Clients: by how much their calls are late, and how long they take. The margin at 1000 tokens
    // a second.
    let table: [(&str, &[Client], i64); 6] = [
        ("before any call", &[], 5_100),
        ("a quick network", &[(1, 0, 3), (2, 0, 3)], 200),
        ("calls are sent late", &[(1, 150, 3), (2, 120, 3)], 10_000),
        ("one client is late", &[(1, 150, 3), (2, 0, 3)], 5_100),
        ("an only client is late", &[(1, 80, 3)], 10_000),
        ("one is as late as is assumed", &[(1, 0, 3), (2, 50, 3)], 5_100),
    ];
    for (what, clients, margin) in table {
        let mut world = measured(Algorithm::TokenBucket, 1000.0, 1000);
        calls(&mut world, 0, clients);
        calls(&mut world, 10_000, clients);
        calls(&mut world, 11_000, clients);
        // A full bucket holds the rest.
        assert_eq!(margin_and_level(&mut world, 20_000), (margin, 100_000 - margin), "{what}");
    }
}

#[test]
fn a_margin_that_changes_gives_out_nothing_twice() {
    let mut world = measured(Algorithm::TokenBucket, 1000.0, 1000);
    let rounds = [(10_000, 0, 200), (20_000, 90, 10_000), (30_000, 0, 10_000)];
    for (review, late, margin) in rounds {
        calls(&mut world, review - 9_000, &[(1, late, 3), (2, late, 3)]);
        world.ask(ms(review - 500), &wish(Mode::Reserve, &[("requests", 900.0)]));
        let (last, id) = (ms(review - 10), format!("last-{review}"));
        world.ask(last, &wish(Mode::Reserve, &[]).named(&id).by(Connection(1)));
        // What the upstream has left is the level and the margin.
        let left = |world: &mut World| {
            let (margin, level) = margin_and_level(world, review);
            margin + level
        };
        let before = left(&mut world);
        world.settle_timed(ms(review), &id, Span::from_millis(late), Span::from_millis(3));
        let after = left(&mut world);
        assert_eq!((after, margin_and_level(&mut world, review).0), (before, margin), "{review}");
    }
}

#[test]
fn a_successor_has_measured_nothing_yet() {
    let mut world = measured(Algorithm::TokenBucket, 1000.0, 1000);
    calls(&mut world, 0, &[(1, 0, 3), (2, 0, 3)]);
    calls(&mut world, 10_000, &[(1, 0, 3)]);
    world.ask(ms(12_000), &wish(Mode::Reserve, &[("requests", 900.0)]));
    assert_eq!(margin_and_level(&mut world, 12_000), (200, 9_800));
    let snapshot = world.scheduler.snapshot(ms(12_000), usize::MAX);
    let resource = world.scheduler.resource().clone();
    let mut successor = World::of(Scheduler::restore(resource, Epoch::new(2), ms(12_000), ms(12_000), &snapshot));
    assert_eq!(margin_and_level(&mut successor, 12_000), (5_100, 4_900));
}

#[test]
fn a_sliding_window_is_longer_by_the_measured_jitter_alone() {
    let granted_at = |late: u64| {
        let mut world = measured(Algorithm::SlidingWindow, 100.0, 1000);
        let clients = [(1, late, 3), (2, late, 3)];
        [0, 10_000, 12_000].iter().for_each(|from| calls(&mut world, *from, &clients));
        let all = wish(Mode::Reserve, &[("requests", 100.0)]);
        world.ask(ms(20_000), &all);
        let next = world.ask(ms(20_000), &wish(Mode::Reserve, &[]));
        world.start(next).unwrap().since(ms(20_000))
    };
    assert_eq!(granted_at(0), Span::from_millis(1001));
    assert_eq!(granted_at(15), Span::from_millis(1020));
    // At most a tenth of the window.
    assert_eq!(granted_at(400), Span::from_millis(1100));
}

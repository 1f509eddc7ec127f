//! The memory of a permit. A program of its own, because its allocator counts everything.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]
#![expect(clippy::print_stdout, reason = "figures, shown with --nocapture")]

mod common;

use common::{World, by, limit, ms, resource, span, wish, with_bulk};
use peak_alloc::PeakAlloc;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::Time;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const COUNT: usize = 10_000;
/// A waiting request, and a granted one, which is remembered for minutes.
const MAX_BYTES: [(Mode, usize, usize); 2] = [(Mode::Wait, COUNT, 1024), (Mode::Reserve, 0, 128)];

/// So many that the hash table has just grown and is at its emptiest.
const KEYS: usize = 60_000;
/// The most bytes of a key: a million keys take 160 MiB.
const MAX_BYTES_OF_KEY: usize = 167;

#[test]
fn what_permits_and_keys_take_of_memory() {
    what_a_key_takes();
    for (mode, waiting, most) in MAX_BYTES {
        let (each, world) = bytes_each(mode);
        println!("{mode:?}: {each} bytes");
        assert_eq!(world.scheduler.waiting(), waiting, "{mode:?}");
        assert!(each <= most, "{mode:?}: {each} bytes at the peak for each of {COUNT}");
    }
}

/// The memory of a client with partly used buckets and a forgotten permit.
fn what_a_key_takes() {
    let mut world = World::new(&resource(vec![by("client", limit("requests", 10.0, span(10_000_000)))]));
    // Requests without a client leave nothing but room for permits.
    ask_all(&mut world, ms(0), false);
    let before = ALLOCATOR.current_usage();
    ask_all(&mut world, ms(1_000_000), true);
    let each = (ALLOCATOR.current_usage() - before) / KEYS;
    println!("key: {each} bytes");
    assert_eq!(world.scheduler.limit_status(ms(2_000_000))[0].keys, KEYS as u64);
    assert!(each <= MAX_BYTES_OF_KEY, "{each} bytes for each of {KEYS} keys");
}

fn ask_all(world: &mut World, from: Time, labelled: bool) {
    for number in 0..KEYS {
        let client = format!("client-{number:0>9}");
        let labels = if labelled { vec![("client", &*client)] } else { Vec::new() };
        world.ask(from + span(number as u64), &common::Wish { labels, ..wish(Mode::Allow, &[]) });
        world.answers.clear();
    }
    world.run_until(from + span(1_000_000));
    assert_eq!(world.scheduler.remembered(), 0);
}

/// Asks for [`COUNT`] permits. Returns the peak of bytes for each, and the world.
fn bytes_each(mode: Mode) -> (usize, World) {
    let capacity = if mode == Mode::Wait { 100.0 } else { 1e9 };
    let limits = ["a", "b", "c"].map(|unit| limit(unit, capacity, span(1000)));
    let mut world = World::new(&with_bulk(resource(limits.to_vec()), 0.2));
    let cost = ["a", "b", "c"].map(|unit| (unit, 100.0));
    world.ask(Time::ORIGIN, &wish(Mode::Reserve, &cost));
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    for number in 0..COUNT {
        let within = common::Wish { max_wait: Some(span(1_000_000_000)), ..wish(mode, &cost) };
        world.ask(Time::ORIGIN, &within.named(&id(mode, number)));
        world.answers.clear();
    }
    ((ALLOCATOR.peak_usage() - before) / COUNT, world)
}

/// Ids of the longest length for waiting requests, and of a UUID's for remembered ones.
fn id(mode: Mode, number: usize) -> String {
    if mode == Mode::Wait { format!("{number:0>64}") } else { format!("{number:0>36}") }
}

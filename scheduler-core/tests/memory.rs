//! What a permit takes of memory. In a program of its own: the allocator counts for everybody.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]
#![expect(clippy::print_stdout, reason = "figures, for who asks with --nocapture")]

mod common;

use common::{World, limit, resource, span, wish, with_bulk};
use peak_alloc::PeakAlloc;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::Time;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const COUNT: usize = 10_000;
/// A waiting request; and one that was granted, which is remembered for minutes.
const MOST_BYTES: [(Mode, usize, usize); 2] = [(Mode::Wait, COUNT, 1024), (Mode::Reserve, 0, 128)];

#[test]
fn what_a_permit_takes_of_memory() {
    for (mode, waiting, most) in MOST_BYTES {
        let (each, world) = bytes_each(mode);
        println!("{mode:?}: {each} bytes");
        assert_eq!(world.scheduler.waiting(), waiting, "{mode:?}");
        assert!(each <= most, "{mode:?}: {each} bytes at the peak for each of {COUNT}");
    }
}

/// Asks until everything is promised far ahead, or can be granted at once where `mode` does not wait.
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

/// As long as ids may be for who waits, as long as a UUID for who is remembered.
fn id(mode: Mode, number: usize) -> String {
    if mode == Mode::Wait { format!("{number:0>64}") } else { format!("{number:0>36}") }
}

//! What a waiting request takes of memory. In a program of its own: the allocator counts for everybody.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]
#![expect(clippy::print_stdout, reason = "figures, for who asks with --nocapture")]

mod common;

use common::{World, limit, resource, span, wish, with_bulk};
use peak_alloc::PeakAlloc;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::Time;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const WAITING: usize = 10_000;
const MOST_BYTES: usize = 1024;
/// As long as ids may be.
const ID_CHARACTERS: usize = 64;

#[test]
fn a_waiting_request_takes_at_most_a_kibibyte() {
    let limits = ["a", "b", "c"].map(|unit| limit(unit, 100.0, span(1000)));
    let mut world = World::new(&with_bulk(resource(limits.to_vec()), 0.2));
    let cost = ["a", "b", "c"].map(|unit| (unit, 100.0));
    world.ask(Time::ORIGIN, &wish(Mode::Reserve, &cost));
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    for number in 0..WAITING {
        let id = format!("{number:0>ID_CHARACTERS$}");
        let within = common::Wish { max_wait: Some(span(1_000_000_000)), ..wish(Mode::Wait, &cost) };
        world.ask(Time::ORIGIN, &within.named(&id));
    }
    assert_eq!(world.scheduler.waiting(), WAITING);
    let each = (ALLOCATOR.peak_usage() - before) / WAITING;
    println!("{each} bytes");
    assert!(each <= MOST_BYTES, "{each} bytes at the peak for each of {WAITING}");
}

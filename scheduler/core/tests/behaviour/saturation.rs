//! Saturation of an upstream that counts in windows and reports them in answers. Measured are
//! the share of rejected calls, and the used share of the capacity.

#![expect(clippy::print_stdout, reason = "figures, shown with --nocapture")]

mod play;
mod upstream;

use crate::prelude::*;
use play::{Events, Outcomes, saturated};
use upstream::{Habits, Headers};

const PERIOD: u64 = 20_000;
const CAPACITY: u64 = 60;
const WORKERS: u64 = 90;
const MINUTE: u64 = 60_000;
const END: u64 = 11 * MINUTE;
const SEEDS: u64 = 40;

/// The written limit: windows by the clock; with keys, each key has its own.
fn spec(habits: &Habits) -> ResourceSpec {
    let mut windows = limit("requests", habits.capacity as f64, span(PERIOD));
    (windows.algorithm, windows.margin) = (Algorithm::FixedWindow(Alignment::Epoch), Margin::Auto);
    if habits.keys > 0 {
        windows.applies = Applies { key: vec!["key".to_owned()], ..Applies::default() };
    }
    resource(vec![windows])
}

/// Sixty calls in twenty seconds, in windows that begin at any time.
fn windows(seed: u64) -> Habits {
    Habits {
        capacity: CAPACITY,
        capacities: Vec::new(),
        phase: seed * 487 % PERIOD,
        jumps_at: None,
        keys: 0,
        headers: if seed.is_multiple_of(2) { Headers::WholeSeconds } else { Headers::Exact },
    }
}

/// Plays all seeds. Returns the sum, and prints the figures if `available` calls could be served in
/// the time that counts.
fn all(what: &str, seeds: u64, available: u64, play: impl Fn(u64) -> Outcomes) -> Outcomes {
    let mut sum = Outcomes::default();
    for outcomes in (0..seeds).map(play) {
        sum.calls += outcomes.calls;
        sum.rejected += outcomes.rejected;
        sum.strangers += outcomes.strangers;
        sum.rejected_elsewhere += outcomes.rejected_elsewhere;
        sum.kills += outcomes.kills;
        sum.disbelieved += outcomes.disbelieved;
    }
    let Outcomes { calls, rejected, .. } = sum;
    let (share, used) = (sum.rejected_share(), sum.used(seeds * available));
    println!("{what}: {calls} calls, {rejected} rejected ({share:.3} %), {used:.2} % used, {sum:?}");
    sum
}

/// The number of calls that are available in this time.
fn in_windows(capacity: u64, millis: u64) -> u64 {
    capacity * millis / PERIOD
}

#[test]
fn windows_of_any_phase_are_used_up_without_a_rejection() {
    let none = Events::default();
    // The first window of the upstream has begun before, unless its phase is zero.
    let available = in_windows(CAPACITY, MINUTE + PERIOD);
    let from_start = all("phase not known at first", SEEDS, available, |seed| {
        saturated(seed, WORKERS, (&windows(seed), none), (0, MINUTE))
    });
    assert_eq!(from_start.rejected, 0);
    assert!(from_start.used(SEEDS * available - CAPACITY) >= 99.0);
    let available = in_windows(CAPACITY, END - MINUTE);
    let known =
        all("phase known", SEEDS, available, |seed| saturated(seed, WORKERS, (&windows(seed), none), (MINUTE, END)));
    assert_eq!(known.rejected, 0);
    assert!(known.used(SEEDS * available) >= 99.5);
}

#[test]
fn beside_strangers_windows_are_used_up_with_few_rejections() {
    let available = in_windows(CAPACITY, END - MINUTE);
    // Strangers want twelve calls in each window, a fifth of it: as soon as the window begins, or
    // all the time.
    for (what, every, most) in
        [("strangers at once", 17, 0.6), ("strangers all the time", 1_667, 0.5), ("less often", 7_001, 0.5)]
    {
        let strangers = Events { strangers: Some((every, CAPACITY / 5)), ..Events::default() };
        let sum =
            all(what, SEEDS, available, |seed| saturated(seed, WORKERS, (&windows(seed), strangers), (MINUTE, END)));
        assert!(sum.rejected_share() <= most, "{what}");
        assert!(sum.used(SEEDS * available) >= 98.0, "{what}");
    }
}

#[test]
fn a_phase_that_jumps_costs_a_window() {
    let available = in_windows(CAPACITY, 5 * MINUTE);
    let sum = all("phase jumps", SEEDS, available, |seed| {
        let jump = 200_000 + seed * 1_013;
        let habits = Habits { jumps_at: Some(jump), ..windows(seed) };
        let counted = (jump + PERIOD, jump + PERIOD + 5 * MINUTE);
        saturated(seed, WORKERS, (&habits, Events::default()), counted)
    });
    assert!(sum.rejected_share() <= 0.5);
    assert!(sum.used(SEEDS * available) >= 98.0);
}

#[test]
fn a_capacity_that_is_halved_and_doubled_is_followed() {
    for (what, before, after) in [("halved", CAPACITY, CAPACITY / 2), ("doubled", CAPACITY / 2, CAPACITY)] {
        let available = in_windows(after, 5 * MINUTE);
        let sum = all(what, SEEDS, available, |seed| {
            let change = 200_000 + seed * 1_013;
            let habits = Habits { capacities: vec![(0, before), (change, after)], ..windows(seed) };
            let counted = (change + PERIOD, change + PERIOD + 5 * MINUTE);
            saturated(seed, WORKERS, (&habits, Events::default()), counted)
        });
        assert!(sum.rejected_share() <= 0.5, "{what}");
        assert!(sum.used(SEEDS * available) >= 98.0, "{what}");
    }
}

#[test]
fn a_scheduler_that_is_killed_in_a_window_admits_no_call_too_many() {
    // Workers want four and a half calls a second, and three are available.
    let kills = Events { kills: Some(6_500), rest: PERIOD, ..Events::default() };
    let available = in_windows(CAPACITY, END + PERIOD);
    let sum = all("kills", 4, available, |seed| saturated(seed, WORKERS, (&windows(seed), kills), (0, END)));
    assert!(sum.kills >= 400, "{sum:?}");
    assert_eq!(sum.rejected, 0);
}

#[test]
fn lessons_about_one_key_stay_with_it() {
    let habits = Habits { capacity: 10, keys: 1000, headers: Headers::Exact, ..windows(1) };
    // Fifty keys have strangers, which take a fifth of their capacity.
    let strangers = Events { strangers: Some((200, 2)), ..Events::default() };
    let counted = 2 * MINUTE;
    let available = in_windows(10, counted) * 1000;
    let sum = all("a thousand keys", 1, available, |seed| {
        saturated(seed, 15_000, (&habits, strangers), (2 * PERIOD, 2 * PERIOD + counted))
    });
    assert!(sum.rejected_share() <= 0.3);
    assert_eq!(sum.rejected_elsewhere, 0);
    assert!(sum.used(available) >= 98.0);
}

#[test]
fn headers_that_are_missing_or_wrong_admit_no_more_than_is_written() {
    let available = in_windows(CAPACITY, END - MINUTE);
    let liar = Events { a_worker_lies: true, ..Events::default() };
    let table = [
        ("headers missing", Headers::Missing, Events::default()),
        ("headers at random", Headers::Random, Events::default()),
        ("a worker lies", Headers::Exact, liar),
    ];
    for (what, headers, events) in table {
        let sum = all(what, SEEDS, available, |seed| {
            let habits = Habits { headers, ..windows(seed) };
            saturated(seed, WORKERS, (&habits, events), (MINUTE, END))
        });
        // Windows that begin at other times may hold one more.
        assert!(sum.calls + sum.rejected <= SEEDS * (available + CAPACITY), "{what}");
        assert!(sum.used(SEEDS * available) >= 25.0, "{what}: below the floor");
        assert_eq!(sum.disbelieved > 0, headers != Headers::Missing, "{what}");
    }
}

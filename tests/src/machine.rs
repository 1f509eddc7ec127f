//! Whether the machine ran all the while: what is measured on one that stood still tells of the
//! machine, and of nothing else.
//!
//! A machine that others share is stopped now and then, with all that runs on it, for some tenths
//! of a second. Nothing may be over-admitted by that, and nothing is excused here that a test
//! asserts by itself; but a share of the rate means little then.

use crate::patience::pause;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use std::fmt::Display;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often it is looked whether the machine runs.
const LOOK: Duration = Duration::from_millis(10);
/// A longer pause is no mere wait for a core.
const PAUSE: Span = Span::from_millis(100);
const TRIES: usize = 3;

/// For how many nanoseconds the machine has stood still, since somebody first wanted to know.
static STOOD_STILL: AtomicU64 = AtomicU64::new(0);
static WATCHED: Once = Once::new();

fn stood_still() -> Span {
    WATCHED.call_once(|| drop(std::thread::spawn(watch)));
    Span::from_nanos(STOOD_STILL.load(Ordering::Relaxed))
}

fn watch() {
    let clock = Clock::start();
    let mut last = clock.now();
    loop {
        pause(LOOK);
        let now = clock.now();
        STOOD_STILL.fetch_add(standstill(last, now).nanos(), Ordering::Relaxed);
        last = now;
    }
}

/// How much of the time between two looks is more than a machine that runs takes.
fn standstill(last: Time, now: Time) -> Span {
    let paused = now.since(last);
    if paused > PAUSE { paused } else { Span::ZERO }
}

/// What `measure` finds. Where it finds fault with a figure and the machine stood still meanwhile,
/// it measures again; and says so where that is of no use either, as a machine that always stands
/// still has no figures.
///
/// # Panics
/// With the fault, if the machine ran all the while; and if `measure` does, which asserts by itself
/// what must hold on any machine.
pub async fn undisturbed<E: Display>(measure: impl AsyncFnMut() -> Result<(), E>) {
    unless_stopped(stood_still, measure).await.unwrap_or_else(|fault| panic!("{fault}"));
}

/// How often it was measured.
#[allow(clippy::print_stdout, reason = "who looks into a failure wants to know of the others")]
async fn unless_stopped<E: Display>(
    stood_still: impl Fn() -> Span,
    mut measure: impl AsyncFnMut() -> Result<(), E>,
) -> Result<usize, E> {
    for times in 1..=TRIES {
        let before = stood_still();
        let found = measure().await;
        let lost = stood_still().saturating_sub(before);
        match found {
            Err(fault) if lost > Span::ZERO => println!("not measured, the machine stood still for {lost}: {fault}"),
            found => return found.map(|()| times),
        }
    }
    Ok(TRIES)
}

/// Nothing if `took` is at most `most`.
///
/// # Errors
/// What took how long.
pub fn in_time(what: &str, took: Span, most: Span) -> Result<(), String> {
    if took <= most { Ok(()) } else { Err(format!("{what}: {took}, at most {most}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_wait_for_a_core_is_no_standstill() {
        let at = |ms| Time::ORIGIN + Span::from_millis(ms);
        assert_eq!(standstill(at(0), at(100)), Span::ZERO);
        assert_eq!(standstill(at(0), at(101)), Span::from_millis(101));
    }

    /// What is never enough, on a machine that stands still in the first `disturbed` measurements.
    async fn measured(disturbed: u64) -> Result<usize, String> {
        let (stood_still, mut times) = (Cell::new(0), 0);
        let stood_still_for = || Span::from_millis(200 * stood_still.get());
        unless_stopped(stood_still_for, async || {
            times += 1;
            stood_still.set(disturbed.min(stood_still.get() + 1));
            Err(format!("too little, {times} times"))
        })
        .await
    }

    #[tokio::test]
    async fn a_fault_is_looked_into_again_if_the_machine_stood_still() {
        assert_eq!(measured(0).await, Err("too little, 1 times".to_owned()));
        assert_eq!(measured(1).await, Err("too little, 2 times".to_owned()));
        assert_eq!(measured(9).await, Ok(TRIES));
    }
}

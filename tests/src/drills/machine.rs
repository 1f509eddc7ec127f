//! Detects pauses of the machine. A figure that was measured on a paused machine describes only the
//! machine.
//!
//! A shared machine sometimes pauses for some tenths of a second, with all its processes. Such a
//! pause excuses no over-admission, and no check of a test itself. A share of the rate means little
//! then, however. It also varies with what other tests do at the same time. A figure therefore has
//! a few attempts, of which one has to reach it.

use crate::patience::pause;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use std::fmt::Display;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a thread checks that the machine runs.
const LOOK: Duration = Duration::from_millis(10);
/// A longer pause is more than a wait for a core.
const PAUSE: Span = Span::from_millis(100);
/// Pauses are rare. If this many measurements in a row each meet one, the machine gives no figures.
const ATTEMPTS: usize = 5;

/// A measurement fails after this many attempts without a pause of the machine. A fault in the code
/// fails all of them, a busy machine only some.
const CHANCES: usize = 3;

/// How many nanoseconds the machine has paused since the first measurement.
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

/// The part of the time between two checks that a running machine does not explain.
fn standstill(last: Time, now: Time) -> Span {
    let paused = now.since(last);
    if paused > PAUSE { paused } else { Span::ZERO }
}

/// Runs `measure` until it finds no fault, three times at most while the machine runs. A fault that
/// only appeared beside pauses is reported as not measured.
///
/// # Panics
/// With the fault, if it was found three times without a pause of the machine. Without one, if the
/// machine paused in almost every attempt. `measure` panics itself for rules that hold on any
/// machine.
pub async fn undisturbed<E: Display>(measure: impl AsyncFnMut() -> Result<(), E>) {
    unless_stopped(stood_still, measure).await.unwrap_or_else(|fault| panic!("{fault}"));
}

/// The number of attempts that a measurement took.
#[allow(clippy::print_stdout, reason = "a failure is understood beside the attempts before it")]
async fn unless_stopped<E: Display>(
    stood_still: impl Fn() -> Span,
    mut measure: impl AsyncFnMut() -> Result<(), E>,
) -> Result<usize, String> {
    let (mut lost_in_all, mut faults) = (Span::ZERO, 0);
    for attempt in 1..=ATTEMPTS {
        let before = stood_still();
        let found = measure().await;
        let lost = stood_still().saturating_sub(before);
        match found {
            Ok(()) => return Ok(attempt),
            Err(fault) if lost == Span::ZERO => {
                faults += 1;
                if faults == CHANCES {
                    return Err(fault.to_string());
                }
                println!("attempt {attempt}: {fault}");
            }
            Err(fault) => println!("attempt {attempt}: not measured, the machine stood still for {lost}: {fault}"),
        }
        lost_in_all = lost_in_all + lost;
    }
    Err(format!("never measured: the machine stood still for {lost_in_all} in {ATTEMPTS} attempts"))
}

/// Checks that `took` is at most `most`.
///
/// # Errors
/// The text `what` with the time it took.
pub fn in_time(what: &str, took: Span, most: Span) -> Result<(), String> {
    if took <= most { Ok(()) } else { Err(format!("{what}: {took}, at most {most}")) }
}

/// The bytes of memory that a process has: its resident set.
pub fn resident(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A measurement that always finds a fault, on a machine that pauses in the first `disturbed`
    /// attempts.
    async fn measured(disturbed: u64) -> Result<usize, String> {
        let (stood_still, mut attempts) = (Cell::new(0), 0);
        let stood_still_for = || Span::from_millis(200 * stood_still.get());
        unless_stopped(stood_still_for, async || {
            attempts += 1;
            stood_still.set(disturbed.min(stood_still.get() + 1));
            Err(format!("too little, attempt {attempts}"))
        })
        .await
    }

    #[tokio::test]
    async fn a_fault_is_looked_into_again_if_the_machine_stood_still() {
        assert_eq!(measured(0).await, Err("too little, attempt 3".to_owned()));
        assert_eq!(measured(1).await, Err("too little, attempt 4".to_owned()));
        assert_eq!(measured(2).await, Err("too little, attempt 5".to_owned()));
    }
}

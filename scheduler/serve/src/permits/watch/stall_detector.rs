//! Detects that the process was stopped or the machine slept, as opposed to a loop that was only busy.
//!
//! Only a process that stood still needs doubt, because its answers may be of any age. A busy loop goes on,
//! even if a standby takes over after 0.7 s of silence. Until a checkpoint of the busy loop fails, all its
//! grants are within checkpoints that the store held, and each start lies at most 2.5 s after the one that
//! covers it. The successor counts all starts until then as spent: an early takeover costs only a new leader.

use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_store::boot_ms;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a loop checks, even if nothing arrives.
pub const HEARTBEAT: Span = Span::from_millis(100);
/// After a longer standstill another scheduler may lead. No thread waits this long for a core.
const STANDSTILL: Span = Span::from_millis(300);
/// Pause between two stamps: a small part of a standstill, and a negligible load.
const STAMP_EVERY: Duration = Duration::from_millis(20);

/// Returns the time since the machine was started, including sleep, or `now` if the system can't provide it.
#[must_use]
pub fn uptime(now: Time) -> Time {
    boot_ms().map_or(now, |ms| Time::ORIGIN + Span::from_millis(ms))
}

/// When this process last ran, recorded by a thread that alone writes it.
#[derive(Debug)]
pub struct ProcessWatch {
    stamp: AtomicU64,
    /// The end of the last standstill, or the origin of time.
    stalled_until: AtomicU64,
}

impl ProcessWatch {
    /// Starts watching until the last reference to the result is dropped.
    ///
    /// # Errors
    /// If the system can't start a thread.
    pub fn start(clock: Clock) -> io::Result<Arc<Self>> {
        let watch = Arc::new(Self::new(uptime(clock.now())));
        let watched = Arc::downgrade(&watch);
        std::thread::Builder::new().name("stalls".to_owned()).spawn(move || {
            while let Some(watch) = watched.upgrade() {
                watch.stamp(uptime(clock.now()));
                drop(watch);
                std::thread::sleep(STAMP_EVERY);
            }
        })?;
        Ok(watch)
    }

    fn new(now: Time) -> Self {
        ProcessWatch { stamp: AtomicU64::new(now.nanos()), stalled_until: AtomicU64::new(Time::ORIGIN.nanos()) }
    }

    fn stamp(&self, now: Time) {
        if self.is_stale(now) {
            self.stalled_until.store(now.nanos(), Ordering::Relaxed);
        }
        // A thread that sees this stamp also sees the standstill before it.
        self.stamp.store(now.nanos(), Ordering::Release);
    }

    /// Returns whether the process has not run since the last stamp. A loop may wake before the watching thread.
    fn is_stale(&self, now: Time) -> bool {
        now.since(Time::from_nanos(self.stamp.load(Ordering::Acquire))) > STANDSTILL
    }

    /// Returns whether a standstill has ended between `then` and `now`.
    fn stood_still(&self, then: Time, now: Time) -> bool {
        self.is_stale(now) || Time::from_nanos(self.stalled_until.load(Ordering::Relaxed)) > then
    }
}

/// Reports each standstill once to one loop.
#[derive(Debug)]
pub struct StallDetector {
    process: Arc<ProcessWatch>,
    looked_at: Time,
}

impl StallDetector {
    /// Creates a detector that has looked at `now`, an [`uptime`].
    #[must_use]
    pub fn new(process: Arc<ProcessWatch>, now: Time) -> Self {
        StallDetector { process, looked_at: now }
    }

    /// Returns how long the loop was away until `now`, an [`uptime`], if its process stood still meanwhile.
    pub fn standstill(&mut self, now: Time) -> Option<Span> {
        let then = std::mem::replace(&mut self.looked_at, now);
        let away = now.since(then);
        (away > STANDSTILL && self.process.stood_still(then, now)).then_some(away)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Span::from_secs(3600) + Span::from_millis(ms)
    }

    fn begin() -> (Arc<ProcessWatch>, StallDetector) {
        let process = Arc::new(ProcessWatch::new(at(0)));
        (Arc::clone(&process), StallDetector::new(process, at(0)))
    }

    fn stamp(process: &ProcessWatch, from_ms: u64, to_ms: u64) {
        (from_ms..=to_ms).step_by(20).for_each(|ms| process.stamp(at(ms)));
    }

    #[test]
    fn a_standstill_is_noticed_once_in_either_order_of_wakeups() {
        for watch_wakes_first in [true, false] {
            let (process, mut detector) = begin();
            stamp(&process, 20, 300);
            assert_eq!(detector.standstill(at(300)), None);
            if watch_wakes_first {
                process.stamp(at(601));
            }
            assert_eq!(detector.standstill(at(601)), Some(Span::from_millis(301)));
            process.stamp(at(602));
            assert_eq!(detector.standstill(at(603)), None);
        }
    }

    #[test]
    fn a_loop_that_was_busy_did_not_stand_still() {
        let (process, mut detector) = begin();
        stamp(&process, 20, 5000);
        assert_eq!(detector.standstill(at(5001)), None);
    }

    #[test]
    fn a_standstill_while_the_loop_was_busy_is_one() {
        let (process, mut detector) = begin();
        stamp(&process, 20, 500);
        stamp(&process, 900, 2000);
        assert_eq!(detector.standstill(at(2000)), Some(Span::from_secs(2)));
        stamp(&process, 2020, 4000);
        assert_eq!(detector.standstill(at(4000)), None, "it is over");
    }

    /// A machine's boot clock counts its sleep, while the monotonic clock stands still.
    #[test]
    fn time_passes_while_the_machine_sleeps() {
        let Some(ms) = boot_ms() else { return };
        assert!(uptime(Time::ORIGIN) >= Time::ORIGIN + Span::from_millis(ms));
    }

    #[test]
    fn a_process_that_runs_is_seen_to_run() {
        let clock = Clock::start();
        let process = ProcessWatch::start(clock).unwrap();
        let mut detector = StallDetector::new(Arc::clone(&process), uptime(clock.now()));
        let first = process.stamp.load(Ordering::Acquire);
        while process.stamp.load(Ordering::Acquire) == first {
            std::thread::yield_now();
        }
        detector.standstill(uptime(clock.now()));
        let watched = Arc::downgrade(&process);
        drop((process, detector));
        while watched.strong_count() > 0 {
            std::thread::yield_now();
        }
    }
}

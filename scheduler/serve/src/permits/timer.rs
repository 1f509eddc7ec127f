//! The clock and the wake-up timer of a permit loop.

use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Time;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Sleep;

/// Wakes a loop at the set time or earlier: a timer set to an earlier time is left alone, as resetting costs more.
#[derive(Debug)]
pub(crate) struct Timer {
    clock: Clock,
    timer: Pin<Box<Sleep>>,
}

impl Timer {
    pub(crate) fn new(clock: Clock) -> Self {
        Timer { clock, timer: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn set(&mut self, at: Time) {
        let at = tokio::time::Instant::from_std(self.clock.instant(at));
        if self.timer.is_elapsed() || at < self.timer.deadline() {
            self.timer.as_mut().reset(at);
        }
    }

    pub(crate) async fn ring(&mut self) {
        self.timer.as_mut().await;
    }
}

//! The time since the start.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the upstream judges the scheduler, so it shares no clock with it")]
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    #[expect(clippy::disallowed_methods, reason = "the upstream judges the scheduler, so it shares no clock with it")]
    pub(crate) fn wall() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    pub(crate) fn now(self) -> Duration {
        self.origin.elapsed()
    }
}

//! Exponential back-off with a cap and full jitter, shared by a resource's asks, sent together.

use crate::rng::Rng;
use rampmeter_protocol::time::{Span, Time};

/// The base of all pauses. A scheduler that hands over has a successor within milliseconds.
const SHORTEST: Span = Span::from_millis(5);
/// Longest pause. Without any, waiting callers would send 100 thousand messages per second.
const LONGEST: Span = Span::from_millis(250);

#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Time,
}

impl Backoff {
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// Counts a failure. Failures during the wait have the same cause and do not count.
    pub(crate) fn fail(&mut self, now: Time, dice: &mut Rng) {
        if now < self.until {
            return;
        }
        let doubled = SHORTEST.nanos().saturating_mul(2 << self.failures.min(16));
        let most = Span::from_nanos(doubled.min(LONGEST.nanos()));
        self.until = now + SHORTEST + dice.span_up_to(most.saturating_sub(SHORTEST));
        self.failures = self.failures.saturating_add(1);
    }

    /// Notes that a scheduler has answered, and forgets all failures.
    pub(crate) fn succeed(&mut self) {
        self.failures = 0;
    }

    /// Waits until `until`, and forgets all failures.
    pub(crate) fn hold_until(&mut self, until: Time) {
        *self = Backoff { failures: 0, until };
    }
}

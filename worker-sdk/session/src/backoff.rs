//! How long to leave a scheduler alone that is not there.

use super::dice::Dice;
use rampmeter_protocol::time::{Span, Time};

/// A scheduler that hands over is back within milliseconds.
const SHORTEST: Span = Span::from_millis(5);
/// Waiting callers without a back-off make 100 thousand messages per second that reach nobody.
const LONGEST: Span = Span::from_millis(250);

/// Exponential, capped, with full jitter: one for all asks of a resource, which travel together.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    until: Time,
}

impl Backoff {
    /// From when on it may be tried again.
    pub(super) fn until(&self) -> Time {
        self.until
    }

    /// One more failure. Failures that come in while waiting are the echo of the same one.
    pub(super) fn fail(&mut self, now: Time, dice: &mut Dice) {
        if now < self.until {
            return;
        }
        let doubled = SHORTEST.nanos().saturating_mul(2 << self.failures.min(16));
        let most = Span::from_nanos(doubled.min(LONGEST.nanos()));
        self.until = now + SHORTEST + dice.span_up_to(most.saturating_sub(SHORTEST));
        self.failures = self.failures.saturating_add(1);
    }

    /// There is a scheduler.
    pub(super) fn succeed(&mut self) {
        self.failures = 0;
    }

    /// A pause of its own, and a fresh start after it.
    pub(super) fn hold_until(&mut self, until: Time) {
        *self = Backoff { failures: 0, until };
    }
}

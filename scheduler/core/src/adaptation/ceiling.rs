//! The capacity that the upstream seems to allow of a limit that is written far too high.
//!
//! It is raised in steps, as an upstream may allow more later, until a sample lowers it again. A
//! failed step doubles the wait for the next one, as TCP backs off; a step that holds halves it.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};

/// A step is one part in this many of the ceiling, and at least one unit.
const STEP_PART: u64 = 20;
const FIRST_WAIT: Span = Span::from_secs(120);
const SHORTEST_WAIT: Span = Span::from_secs(60);
const LONGEST_WAIT: Span = Span::from_secs(3600);

#[derive(Clone, Copy, Debug)]
pub(super) struct Ceiling {
    pub(super) capacity: Amount,
    pub(super) raise_at: Time,
    wait: Span,
    is_raised: bool,
}

impl Ceiling {
    /// Lowers the ceiling after the upstream has allowed no more than `allowed`.
    pub(super) fn lowered(before: Option<Self>, now: Time, allowed: Amount) -> Self {
        let wait = before.map_or(FIRST_WAIT, |before| Span::from_nanos(before.wait.nanos() * 2).min(LONGEST_WAIT));
        Ceiling { capacity: allowed, raise_at: now + wait, wait, is_raised: false }
    }

    /// Raises the ceiling by a step. The next one comes sooner if the previous one has held.
    pub(super) fn raised(self, now: Time) -> Self {
        let step = Amount::from_micros(self.capacity.micros() / STEP_PART).unwrap_or(Amount::ONE).max(Amount::ONE);
        let shorter = Span::from_nanos(self.wait.nanos() / 2).max(SHORTEST_WAIT);
        let wait = if self.is_raised { shorter } else { self.wait };
        Ceiling { capacity: self.capacity.saturating_add(step), raise_at: now + wait, wait, is_raised: true }
    }
}

//! The epochs of leaders, and which of them are plausible.
//!
//! Epochs count changes of leader, or begin at the wall clock in milliseconds if the count was
//! lost. A higher number than the wall clock is therefore a mistake or a lie.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How far two machines' wall clocks may differ, in milliseconds, before an epoch is refused.
pub const CLOCK_TOLERANCE_MS: u64 = 60_000;

/// The epoch of a resource's leader; later ones are higher. A leader leads in an epoch once a compare-and-set has
/// written it to the store, and may move on to a higher one. Epochs of different resources have no order.
///
/// The type holds every 64-bit number, because stored records and answers are read unchecked.
/// Parsing a request refuses an epoch above [`MAX_EPOCH`](crate::bounds::MAX_EPOCH).
///
/// ```
/// use rampmeter_protocol::epoch::Epoch;
///
/// assert!(Epoch::NONE < Epoch::FIRST && Epoch::FIRST < Epoch::FIRST.next());
/// assert_eq!(Epoch::new(7).next().to_string(), "8");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(u64);

impl Epoch {
    /// No leader's epoch, used in answers of schedulers that do not lead the resource.
    pub const NONE: Epoch = Epoch(0);
    /// The epoch of a resource's first leader.
    pub const FIRST: Epoch = Epoch(1);

    /// Creates the epoch with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Epoch(number)
    }

    /// Returns the lowest epoch of a successor, or the same epoch if it is the highest number.
    #[must_use]
    pub const fn next(self) -> Self {
        Epoch(self.0.saturating_add(1))
    }

    /// Returns the number, for logs and metrics.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the highest epoch that a scheduler believes of another leader at wall time `unix_ms`.
#[must_use]
pub fn highest_of_a_leader(unix_ms: u64) -> Epoch {
    Epoch(unix_ms.saturating_add(CLOCK_TOLERANCE_MS))
}

/// Returns the highest epoch that a client accepts from an event at the wall time `unix_ms`: a leader may count on from
/// [`highest_of_a_leader`], and its clock may be ahead.
#[must_use]
pub fn highest_of_an_event(unix_ms: u64) -> Epoch {
    Epoch(highest_of_a_leader(unix_ms).0.saturating_add(2 * CLOCK_TOLERANCE_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_accepts_the_next_epoch_of_a_leader_whose_clock_is_ahead() {
        let (of_client, of_scheduler) = (1_000_000, 1_000_000 + CLOCK_TOLERANCE_MS);
        let next = highest_of_a_leader(of_scheduler).next();
        assert!(next <= highest_of_an_event(of_client));
        assert_eq!(highest_of_an_event(u64::MAX), Epoch(u64::MAX));
    }
}

//! How much of a policy was used.

use crate::{Amount, Policy};

/// The used part of a policy's offer between two snapshots; see [`Stats`](crate::Stats::utilisation_since).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Utilisation {
    /// The policy.
    pub policy: Policy,
    /// The cost of admitted calls.
    pub spent: Amount,
    /// The inflow, rate × elapsed, rounded up so that the ratio is never too high.
    pub offered: Amount,
}

impl Utilisation {
    /// Returns the ratio of spent to offered, for people; `None` without an offer.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.offered > Amount::ZERO).then(|| self.spent.to_f64() / self.offered.to_f64())
    }
}

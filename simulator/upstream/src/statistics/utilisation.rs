//! How much of a policy was used.

use crate::{Amount, Policy};

/// The used part of a policy's offer between two snapshots; see
/// [`Stats::utilisation_since`](crate::Stats::utilisation_since).
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
    ///
    /// ```
    /// use rampmeter_upstream::{Amount, Utilisation};
    ///
    /// let policy = "requests=50/10s".parse()?;
    /// let used = Utilisation { policy, spent: Amount::whole(30), offered: Amount::whole(40) };
    /// assert_eq!(used.ratio(), Some(0.75));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.offered > Amount::ZERO).then(|| self.spent.to_f64() / self.offered.to_f64())
    }
}

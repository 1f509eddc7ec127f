//! The counts of an upstream.

use crate::{Amount, Policy, Tally, Utilisation};
use std::time::Duration;

/// A consistent snapshot of all counts since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The time since the start.
    pub uptime: Duration,
    /// All calls.
    pub total: Tally,
    /// The policies, in the order of the configuration.
    pub policies: Vec<PolicyStats>,
}

/// What one policy has spent and could spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStats {
    /// The policy itself.
    pub policy: Policy,
    /// The total cost of admitted calls.
    pub spent: Amount,
    /// What could be spent now, rounded down to a micro-unit.
    pub level: Amount,
}

impl Stats {
    /// Returns how much of each policy's offer since `earlier` was used, in their order. The offer is the inflow, rate
    /// × elapsed, without the stock at `earlier`, so take `earlier` after the first burst has been spent. Full use is
    /// then 1, and exceeds 1 by at most the remaining stock.
    ///
    /// ```
    /// use rampmeter_upstream::{Amount, PolicyStats, Stats, Tally};
    /// use std::time::Duration;
    ///
    /// let snapshot = |seconds, spent| -> Result<Stats, rampmeter_upstream::PolicyError> {
    ///     let policy = "requests=50/10s".parse()?;
    ///     Ok(Stats {
    ///         uptime: Duration::from_secs(seconds),
    ///         total: Tally::default(),
    ///         policies: vec![PolicyStats { policy, spent: Amount::whole(spent), level: Amount::ZERO }],
    ///     })
    /// };
    /// let (after_burst, end) = (snapshot(10, 100)?, snapshot(70, 385)?);
    /// let used = &end.utilisation_since(&after_burst)[0];
    /// assert_eq!((used.spent, used.offered), (Amount::whole(285), Amount::whole(300)));
    /// assert_eq!(used.ratio(), Some(0.95));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    ///
    /// # Panics
    /// If the two snapshots have different policies.
    #[must_use]
    pub fn utilisation_since(&self, earlier: &Self) -> Vec<Utilisation> {
        assert_eq!(self.policies.len(), earlier.policies.len(), "snapshots of different upstreams");
        let elapsed = self.uptime.saturating_sub(earlier.uptime);
        let pairs = self.policies.iter().zip(&earlier.policies);
        pairs.map(|(now, then)| now.utilisation_since(then, elapsed)).collect()
    }
}

impl PolicyStats {
    fn utilisation_since(&self, earlier: &Self, elapsed: Duration) -> Utilisation {
        assert_eq!(self.policy, earlier.policy, "snapshots of different upstreams");
        Utilisation {
            policy: self.policy.clone(),
            spent: self.spent.saturating_sub(earlier.spent),
            offered: self.policy.refill_during(elapsed),
        }
    }
}

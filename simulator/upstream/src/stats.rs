//! What an upstream has seen so far.

use crate::{Amount, Policy, Tally, Utilisation};
use std::{collections::BTreeMap, time::Duration};

/// A consistent snapshot of everything an upstream has counted since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The time since the start.
    pub uptime: Duration,
    /// All calls.
    pub total: Tally,
    /// The policies, in the order of the configuration.
    pub policies: Vec<PolicyStats>,
    /// The calls that carried a label, by that label; see [`MAX_CLASSES`](crate::MAX_CLASSES).
    pub classes: BTreeMap<String, Tally>,
}

/// What one policy has spent and could spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStats {
    /// The policy itself.
    pub policy: Policy,
    /// All that admitted calls have taken.
    pub spent: Amount,
    /// What could be spent now, rounded down to a micro-unit.
    pub level: Amount,
}

impl Stats {
    /// How much of what each policy offered since `earlier` was used, in the order of the policies.
    ///
    /// Offered is what flowed in: rate × elapsed. The stock that a policy held at `earlier` is not
    /// part of it, so take `earlier` after the first burst has been spent: between two such
    /// snapshots full use is 1, and more than 1 is at most the stock that was left in the policy.
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
    ///         classes: Default::default(),
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
    ///
    /// When the two snapshots are of upstreams with different policies.
    #[must_use]
    pub fn utilisation_since(&self, earlier: &Self) -> Vec<Utilisation> {
        assert_eq!(self.policies.len(), earlier.policies.len(), "snapshots of different upstreams");
        let elapsed = self.uptime.saturating_sub(earlier.uptime);
        let pairs = self.policies.iter().zip(&earlier.policies);
        pairs.map(|(now, then)| now.utilisation_since(then, elapsed)).collect()
    }
}

impl PolicyStats {
    /// How long it takes until what is missing of the capacity has flowed in, rounded up; `None`
    /// when it never does. A window gets back everything at its end, which comes no later.
    ///
    /// ```
    /// use rampmeter_upstream::{Amount, PolicyStats};
    /// use std::time::Duration;
    ///
    /// let policy = "requests=50/10s".parse()?;
    /// let stats = PolicyStats { policy, spent: Amount::ZERO, level: Amount::whole(45) };
    /// assert_eq!(stats.full_in(), Some(Duration::from_secs(1)));
    /// # Ok::<(), rampmeter_upstream::PolicyError>(())
    /// ```
    #[must_use]
    pub fn full_in(&self) -> Option<Duration> {
        if self.policy.period() == Duration::ZERO {
            return None;
        }
        let capacity = self.policy.capacity();
        let missing = u128::from(capacity.saturating_sub(self.level).micros());
        let wait_ns = (missing * self.policy.period().as_nanos()).div_ceil(u128::from(capacity.micros()));
        Some(Duration::from_nanos(u64::try_from(wait_ns).expect("at most the period")))
    }

    fn utilisation_since(&self, earlier: &Self, elapsed: Duration) -> Utilisation {
        assert_eq!(self.policy, earlier.policy, "snapshots of different upstreams");
        Utilisation {
            policy: self.policy.clone(),
            spent: self.spent.saturating_sub(earlier.spent),
            offered: self.policy.refill_during(elapsed),
        }
    }
}

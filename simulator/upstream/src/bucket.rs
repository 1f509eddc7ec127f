//! The state of one policy.

use crate::{Amount, Policy, Rejection};
use std::time::Duration;

/// The token bucket of one policy: starts full, refills evenly, overflows at its capacity.
///
/// Levels are micro-units times nanoseconds of the period. On that scale one nanosecond brings exactly `capacity`, so
/// nothing is ever divided or rounded, and a product of two `u64` always fits.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    policy: Policy,
    scale: u64,
    refill_per_ns: u64,
    level: u128,
    updated_ns: u64,
}

impl Bucket {
    pub(crate) fn full(policy: Policy) -> Self {
        let refills = policy.period_ns() > 0;
        let bucket = Self {
            scale: if refills { policy.period_ns() } else { 1 },
            refill_per_ns: if refills { policy.capacity().micros() } else { 0 },
            level: 0,
            updated_ns: 0,
            policy,
        };
        Self { level: bucket.brim(), ..bucket }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Lets flow in what has come since the last time; a time before that changes nothing.
    pub(crate) fn refill(&mut self, now_ns: u64) {
        self.level = self.level_at(now_ns);
        self.updated_ns = self.updated_ns.max(now_ns);
    }

    /// What could be spent at `now_ns`, rounded down to a micro-unit.
    pub(crate) fn spendable(&self, now_ns: u64) -> Amount {
        let micros = self.level_at(now_ns) / u128::from(self.scale);
        Amount::from_micros(u64::try_from(micros).expect("the level never exceeds the capacity"))
    }

    /// Why `cost` cannot be paid now.
    pub(crate) fn refusal(&self, cost: Amount) -> Option<Rejection> {
        let missing = self.scaled(cost).saturating_sub(self.level);
        if missing == 0 {
            return None;
        }
        if self.refill_per_ns == 0 || cost > self.policy.capacity() {
            return Some(Rejection::Never);
        }
        let wait_ns = missing.div_ceil(u128::from(self.refill_per_ns));
        let wait_ns = u64::try_from(wait_ns).expect("no wait is longer than the period");
        Some(Rejection::RetryAfter(Duration::from_nanos(wait_ns)))
    }

    /// Takes `cost`, which [`Self::refusal`] has just allowed.
    pub(crate) fn charge(&mut self, cost: Amount) {
        let rest = self.level.checked_sub(self.scaled(cost));
        self.level = rest.expect("only what the bucket can pay is charged");
    }

    fn level_at(&self, now_ns: u64) -> u128 {
        let elapsed_ns = now_ns.saturating_sub(self.updated_ns);
        let flow = u128::from(elapsed_ns) * u128::from(self.refill_per_ns);
        self.level.saturating_add(flow).min(self.brim())
    }

    fn brim(&self) -> u128 {
        self.scaled(self.policy.capacity())
    }

    fn scaled(&self, amount: Amount) -> u128 {
        u128::from(amount.micros()) * u128::from(self.scale)
    }
}

//! The state of a fixed window.

use crate::{Amount, Policy, Rejection};

/// A fixed window: a capacity for each period. One period began `phase_ns` before the origin of
/// time.
#[derive(Clone, Debug)]
pub(crate) struct FixedWindow {
    capacity: Amount,
    period_ns: u64,
    used: Amount,
    updated_ns: u64,
    phase_ns: u64,
    /// How long after multiples of the policy's period its windows begin.
    later_ns: u64,
}

impl FixedWindow {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            capacity: policy.capacity(),
            period_ns: policy.period_ns(),
            used: Amount::ZERO,
            updated_ns: 0,
            phase_ns: (policy.period_ns() - policy.model().phase_ns()) % policy.period_ns(),
            later_ns: policy.model().phase_ns(),
        }
    }

    /// Counts multiples of the period from a time that was this long before the origin of time.
    pub(crate) fn begin(&mut self, since_ns: u128) {
        let period_ns = u128::from(self.period_ns);
        self.phase_ns = ((since_ns + period_ns - u128::from(self.later_ns)) % period_ns) as u64;
    }

    /// Goes on with what another window has used.
    pub(crate) fn succeed(&mut self, before: &Self) {
        self.used = before.used_at(self.updated_ns);
    }

    /// The time from `now_ns` to the end of its window.
    pub(crate) fn full_in_ns(&self, now_ns: u64) -> u64 {
        self.period_ns - now_ns.saturating_add(self.phase_ns) % self.period_ns
    }

    /// Opens the window of `now_ns`; a time before the last one changes nothing.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.used = self.used_at(now_ns);
        self.updated_ns = self.updated_ns.max(now_ns);
    }

    pub(crate) fn spendable(&self, now_ns: u64) -> Amount {
        self.capacity.saturating_sub(self.used_at(now_ns))
    }

    pub(crate) fn refusal(&self, cost: Amount) -> Option<Rejection> {
        if cost > self.capacity {
            return Some(Rejection::Never);
        }
        let rest_of_window_ns = self.full_in_ns(self.updated_ns);
        (cost > self.capacity.saturating_sub(self.used)).then(|| Rejection::after_ns(rest_of_window_ns.into()))
    }

    pub(crate) fn charge(&mut self, cost: Amount) {
        self.used = self.used.saturating_add(cost);
    }

    fn used_at(&self, now_ns: u64) -> Amount {
        let same_window = self.window(now_ns) <= self.window(self.updated_ns);
        if same_window { self.used } else { Amount::ZERO }
    }

    fn window(&self, time_ns: u64) -> u64 {
        time_ns.saturating_add(self.phase_ns) / self.period_ns
    }
}

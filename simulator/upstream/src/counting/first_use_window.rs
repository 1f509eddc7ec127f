//! The state of a window that begins with its first call.

use crate::{Amount, Policy, Rejection};

/// A window that begins with the first call after the last one.
#[derive(Clone, Debug)]
pub(crate) struct FirstUseWindow {
    capacity: Amount,
    period_ns: u64,
    /// The end of the last window; zero before the first.
    ends_ns: u64,
    used: Amount,
    updated_ns: u64,
}

impl FirstUseWindow {
    pub(crate) fn new(policy: &Policy) -> Self {
        let (capacity, period_ns) = (policy.capacity(), policy.period_ns());
        Self { capacity, period_ns, ends_ns: 0, used: Amount::ZERO, updated_ns: 0 }
    }

    /// Goes on with the window of another policy.
    pub(crate) fn succeed(&mut self, before: &Self) {
        (self.ends_ns, self.used) = (before.ends_ns, before.used);
    }

    /// Notes that a call arrives. After the end of a window, the call begins another one.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.updated_ns = self.updated_ns.max(now_ns);
        if self.updated_ns >= self.ends_ns {
            (self.ends_ns, self.used) = (self.updated_ns.saturating_add(self.period_ns), Amount::ZERO);
        }
    }

    pub(crate) fn spendable(&self, now_ns: u64) -> Amount {
        let used = if now_ns < self.ends_ns { self.used } else { Amount::ZERO };
        self.capacity.saturating_sub(used)
    }

    /// The time until the window ends. A window that has not begun would last for its period.
    pub(crate) fn full_in_ns(&self, now_ns: u64) -> u64 {
        if now_ns < self.ends_ns { self.ends_ns - now_ns } else { self.period_ns }
    }

    pub(crate) fn refusal(&self, cost: Amount) -> Option<Rejection> {
        if cost > self.capacity {
            return Some(Rejection::Never);
        }
        let wait_ns = self.full_in_ns(self.updated_ns);
        (cost > self.capacity.saturating_sub(self.used)).then(|| Rejection::after_ns(wait_ns.into()))
    }

    pub(crate) fn charge(&mut self, cost: Amount) {
        self.used = self.used.saturating_add(cost);
    }
}

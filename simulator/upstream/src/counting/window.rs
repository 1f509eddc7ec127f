//! A window of a fixed length, whose capacity is renewed at its end.

use crate::{Amount, Policy, Rejection, policy::model::WindowStart};

#[derive(Clone, Debug)]
pub(crate) struct Window {
    capacity: Amount,
    period_ns: u64,
    start: WindowStart,
    /// The time from which periods are counted, before the origin of time.
    since_ns: u128,
    /// The end of the last window; zero before the first.
    ends_ns: u128,
    used: Amount,
    updated_ns: u64,
}

impl Window {
    pub(crate) fn new(policy: &Policy, start: WindowStart, since_ns: u128) -> Self {
        let (capacity, period_ns) = (policy.capacity(), policy.period_ns());
        Self { capacity, period_ns, start, since_ns, ends_ns: 0, used: Amount::ZERO, updated_ns: 0 }
    }

    /// Takes over what another window has used. A window that began with a call keeps its end.
    pub(crate) fn succeed(&mut self, before: &Self) {
        self.used = before.used_at(self.updated_ns);
        if self.start == WindowStart::FirstUse {
            self.ends_ns = before.ends_ns;
        }
    }

    /// Notes an arriving call. After the end of a window, the call opens another one.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.updated_ns = self.updated_ns.max(now_ns);
        let now_ns = u128::from(self.updated_ns);
        if now_ns >= self.ends_ns {
            self.ends_ns = now_ns + self.lasts_ns(now_ns);
            self.used = Amount::ZERO;
        }
    }

    pub(crate) fn spendable(&self, now_ns: u64) -> Amount {
        self.capacity.saturating_sub(self.used_at(now_ns))
    }

    /// Returns the time until the window ends, or the one that would open at `now_ns`.
    pub(crate) fn full_in_ns(&self, now_ns: u64) -> u128 {
        let now_ns = u128::from(now_ns);
        if now_ns < self.ends_ns { self.ends_ns - now_ns } else { self.lasts_ns(now_ns) }
    }

    pub(crate) fn refusal(&self, cost: Amount) -> Option<Rejection> {
        if cost > self.capacity {
            return Some(Rejection::Never);
        }
        let wait_ns = self.full_in_ns(self.updated_ns);
        (cost > self.capacity.saturating_sub(self.used)).then(|| Rejection::after_ns(wait_ns))
    }

    pub(crate) fn charge(&mut self, cost: Amount) {
        self.used = self.used.saturating_add(cost);
    }

    /// Returns how long a window that a call opens at `now_ns` lasts.
    fn lasts_ns(&self, now_ns: u128) -> u128 {
        let period_ns = u128::from(self.period_ns);
        match self.start {
            WindowStart::FirstUse => period_ns,
            WindowStart::Aligned { phase_ns } => {
                let begun_ns = self.since_ns + now_ns + period_ns - u128::from(phase_ns);
                period_ns - begun_ns % period_ns
            }
        }
    }

    fn used_at(&self, now_ns: u64) -> Amount {
        if u128::from(now_ns) < self.ends_ns { self.used } else { Amount::ZERO }
    }
}

//! A sliding window: every admitted call of the last period, with its time.

use crate::{Amount, Policy, Rejection};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct SlidingWindow {
    capacity: Amount,
    period_ns: u64,
    /// Oldest first. Each takes some of the capacity, whose micro-units bound their number.
    admitted: VecDeque<Charge>,
    used: Amount,
    updated_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Charge {
    at_ns: u64,
    cost: Amount,
}

impl SlidingWindow {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            capacity: policy.capacity(),
            period_ns: policy.period_ns(),
            admitted: VecDeque::new(),
            used: Amount::ZERO,
            updated_ns: 0,
        }
    }

    /// Forgets calls that have left the window. An earlier time than the last one changes nothing.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.updated_ns = self.updated_ns.max(now_ns);
        while let Some(oldest) = self.admitted.pop_front_if(|charge| has_left(charge, self.period_ns, self.updated_ns))
        {
            self.used = self.used.saturating_sub(oldest.cost);
        }
    }

    pub(crate) fn spendable(&self, now_ns: u64) -> Amount {
        let left = self.admitted.iter().take_while(|charge| has_left(charge, self.period_ns, now_ns));
        left.fold(self.room(), |room, charge| room.saturating_add(charge.cost))
    }

    pub(crate) fn refusal(&self, cost: Amount) -> Option<Rejection> {
        if cost > self.capacity {
            return Some(Rejection::Never);
        }
        (cost > self.room()).then(|| Rejection::after_ns(self.wait_ns(cost).into()))
    }

    /// Notes `cost` unless it is zero, which takes no part of the capacity.
    pub(crate) fn charge(&mut self, cost: Amount) {
        if cost > Amount::ZERO {
            self.used = self.used.saturating_add(cost);
            self.admitted.push_back(Charge { at_ns: self.updated_ns, cost });
        }
    }

    /// Takes over the calls that another window has admitted.
    pub(crate) fn succeed(&mut self, before: &Self) {
        (self.admitted, self.used) = (before.admitted.clone(), before.used);
        self.advance(self.updated_ns);
    }

    /// Returns the time until the last admitted call has left.
    pub(crate) fn full_in_ns(&self, now_ns: u64) -> u64 {
        self.admitted.back().map_or(0, |last| last.at_ns.saturating_add(self.period_ns).saturating_sub(now_ns))
    }

    fn room(&self) -> Amount {
        self.capacity.saturating_sub(self.used)
    }

    /// Returns the time until enough of the oldest calls have left for `cost` to fit.
    fn wait_ns(&self, cost: Amount) -> u64 {
        let mut room = self.room();
        let last_to_leave = self.admitted.iter().find(|charge| {
            room = room.saturating_add(charge.cost);
            room >= cost
        });
        let last_to_leave = last_to_leave.expect("an empty window has room for its capacity");
        self.period_ns - (self.updated_ns - last_to_leave.at_ns)
    }
}

/// The window of `now_ns` begins just after `now_ns` − `period_ns`.
fn has_left(charge: &Charge, period_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(charge.at_ns) >= period_ns
}

//! The state of a leaky bucket.

use crate::{Amount, Policy, Rejection, counting::flow::Flow};

/// A leaky bucket: calls fill it, rejected ones too, and it drains evenly. Its content is a volume
/// of its [`Flow`].
#[derive(Clone, Debug)]
pub(crate) struct LeakyBucket {
    drain: Flow,
    brim: u128,
    content: u128,
    updated_ns: u64,
}

impl LeakyBucket {
    pub(crate) fn new(policy: &Policy) -> Self {
        let drain = Flow::of(policy);
        Self { drain, brim: drain.volume(policy.capacity()), content: 0, updated_ns: 0 }
    }

    /// Drains the bucket until `now_ns`; an earlier time than the last one changes nothing.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.content = self.content_at(now_ns);
        self.updated_ns = self.updated_ns.max(now_ns);
    }

    pub(crate) fn spendable(&self, now_ns: u64) -> Amount {
        self.drain.amount(self.brim - self.content_at(now_ns))
    }

    /// The time until it is empty; `None` if it never drains.
    pub(crate) fn full_in_ns(&self, now_ns: u64) -> Option<u128> {
        self.drain.time_for_ns(self.content_at(now_ns))
    }

    pub(crate) fn refusal(&self, cost: Amount) -> Option<Rejection> {
        let volume = self.drain.volume(cost);
        let excess = volume.saturating_sub(self.room());
        if excess == 0 {
            return None;
        }
        let wait_ns = self.drain.time_for_ns(excess).filter(|_| volume <= self.brim);
        Some(wait_ns.map_or(Rejection::Never, Rejection::after_ns))
    }

    /// Adds the cost of a call, admitted or not; the part that does not fit is lost.
    pub(crate) fn fill(&mut self, cost: Amount) {
        self.content += self.drain.volume(cost).min(self.room());
    }

    fn room(&self) -> u128 {
        self.brim - self.content
    }

    fn content_at(&self, now_ns: u64) -> u128 {
        self.content.saturating_sub(self.drain.during(now_ns.saturating_sub(self.updated_ns)))
    }
}

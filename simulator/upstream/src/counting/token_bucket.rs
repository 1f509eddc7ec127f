//! Token buckets and leaky buckets.

use crate::{Amount, Policy, Rejection, counting::flow::Flow, policy::model::Variant};
use std::num::NonZeroU64;

/// A stock with an inflow up to a maximum, in volumes of its [`Flow`]. Rejected calls take from a leaky bucket too.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    flow: Flow,
    tick_ns: Option<NonZeroU64>,
    whole: bool,
    is_leaky: bool,
    brim: u128,
    level: u128,
    updated_ns: u64,
}

impl TokenBucket {
    pub(crate) fn new(policy: &Policy, variant: Variant) -> Self {
        let flow = Flow::of(policy);
        let holds = variant.holds(policy.capacity());
        Self {
            flow,
            tick_ns: variant.tick_ns,
            whole: variant.whole,
            is_leaky: false,
            brim: flow.volume(holds),
            level: flow.volume(variant.start.unwrap_or(holds)),
            updated_ns: 0,
        }
    }

    /// Creates a leaky bucket, whose level is the room left for calls.
    pub(crate) fn leaky(policy: &Policy) -> Self {
        Self { is_leaky: true, ..Self::new(policy, Variant::default()) }
    }

    /// Adds the inflow until `now_ns`. An earlier time than the last one changes nothing.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.level = self.level_at(now_ns);
        self.updated_ns = self.updated_ns.max(now_ns);
    }

    /// Sets the level at the time of the last advance, as far as it fits.
    pub(crate) fn hold(&mut self, level: Amount) {
        self.level = self.flow.volume(level).min(self.brim);
    }

    pub(crate) fn spendable(&self, now_ns: u64) -> Amount {
        self.flow.amount(self.level_at(now_ns))
    }

    /// Returns the time until it is full by its nominal rate; `None` if it never refills.
    pub(crate) fn full_in_ns(&self, now_ns: u64) -> Option<u128> {
        self.flow.time_for_ns(self.brim - self.level_at(now_ns))
    }

    pub(crate) fn refusal(&self, cost: Amount) -> Option<Rejection> {
        let volume = self.flow.volume(cost);
        let missing = volume.saturating_sub(self.level);
        if missing == 0 {
            return None;
        }
        let wait_ns = self.wait_ns(missing).filter(|_| volume <= self.brim);
        Some(wait_ns.map_or(Rejection::Never, Rejection::after_ns))
    }

    /// Takes `cost`, which [`Self::refusal`] has just allowed.
    pub(crate) fn charge(&mut self, cost: Amount) {
        let rest = self.level.checked_sub(self.flow.volume(cost));
        self.level = rest.expect("only what the bucket can pay is charged");
    }

    /// Counts a rejected call. What a leaky bucket has no room for is lost.
    pub(crate) fn reject(&mut self, cost: Amount) {
        if self.is_leaky {
            self.level = self.level.saturating_sub(self.flow.volume(cost));
        }
    }

    fn level_at(&self, now_ns: u64) -> u128 {
        self.level.saturating_add(self.inflow_until(now_ns)).min(self.brim)
    }

    fn inflow_until(&self, now_ns: u64) -> u128 {
        match self.tick_ns {
            None => self.kept(self.flow.during(now_ns.saturating_sub(self.updated_ns))),
            Some(tick_ns) => {
                let ticks = (now_ns / tick_ns).saturating_sub(self.updated_ns / tick_ns);
                u128::from(ticks) * self.per_tick(tick_ns)
            }
        }
    }

    fn per_tick(&self, tick_ns: NonZeroU64) -> u128 {
        self.kept(self.flow.during(tick_ns.get()))
    }

    /// The part of the inflow that a refill keeps.
    fn kept(&self, inflow: u128) -> u128 {
        if self.whole { inflow - inflow % self.unit() } else { inflow }
    }

    /// How long after the last update the `missing` volume is there, if no call arrives meanwhile.
    fn wait_ns(&self, missing: u128) -> Option<u128> {
        match self.tick_ns {
            None => self.flow.time_for_ns(self.needed(missing)),
            Some(tick_ns) => self.wait_for_ticks_ns(tick_ns, missing),
        }
    }

    /// The inflow of which a refill keeps `missing`; it saturates beyond 584 years.
    fn needed(&self, missing: u128) -> u128 {
        if self.whole { missing.checked_next_multiple_of(self.unit()).unwrap_or(u128::MAX) } else { missing }
    }

    fn wait_for_ticks_ns(&self, tick_ns: NonZeroU64, missing: u128) -> Option<u128> {
        let per_tick = self.per_tick(tick_ns);
        let ticks = (per_tick > 0).then(|| missing.div_ceil(per_tick))?;
        let tick = u128::from(self.updated_ns / tick_ns) + ticks;
        Some(tick * u128::from(tick_ns.get()) - u128::from(self.updated_ns))
    }

    fn unit(&self) -> u128 {
        self.flow.volume(Amount::ONE)
    }
}

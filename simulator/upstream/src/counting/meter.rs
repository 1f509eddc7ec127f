//! The state of one policy.

use crate::{
    Amount, Policy, Rejection, counting::first_use_window::FirstUseWindow, counting::fixed_window::FixedWindow,
    counting::leaky_bucket::LeakyBucket, counting::sliding_window::SlidingWindow, counting::token_bucket::TokenBucket,
    policy::model::Model,
};

/// The state of one policy, by its model.
///
/// While no calls come, the amount that can be spent never falls. After the longest wait, all
/// policies can pay.
#[derive(Clone, Debug)]
pub(crate) enum Meter {
    TokenBucket(TokenBucket),
    FixedWindow(FixedWindow),
    FirstUseWindow(FirstUseWindow),
    SlidingWindow(SlidingWindow),
    LeakyBucket(LeakyBucket),
}

impl Meter {
    pub(crate) fn new(policy: &Policy) -> Self {
        match policy.model() {
            Model::TokenBucket(variant) => Self::TokenBucket(TokenBucket::new(policy, variant)),
            Model::FixedWindow { .. } => Self::FixedWindow(FixedWindow::new(policy)),
            Model::FirstUseWindow => Self::FirstUseWindow(FirstUseWindow::new(policy)),
            Model::SlidingWindow => Self::SlidingWindow(SlidingWindow::new(policy)),
            Model::LeakyBucket => Self::LeakyBucket(LeakyBucket::new(policy)),
        }
    }

    /// Shifts fixed windows: they begin at multiples of their period since a time that was this
    /// long before the origin of time.
    pub(crate) fn begin(&mut self, since_ns: u128) {
        match self {
            Self::FixedWindow(window) => window.begin(since_ns),
            Self::TokenBucket(_) | Self::FirstUseWindow(_) | Self::SlidingWindow(_) | Self::LeakyBucket(_) => {}
        }
    }

    /// Notes that a call arrives at `now_ns`, whatever it costs. An earlier time counts as the last
    /// one.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        match self {
            Self::TokenBucket(bucket) => bucket.advance(now_ns),
            Self::FixedWindow(window) => window.advance(now_ns),
            Self::FirstUseWindow(window) => window.advance(now_ns),
            Self::SlidingWindow(window) => window.advance(now_ns),
            Self::LeakyBucket(bucket) => bucket.advance(now_ns),
        }
    }

    /// Goes on where the meter of another policy stops, at `now_ns`. A token bucket keeps its
    /// level, as far as there is room, and a window what it has used. Another model begins again.
    pub(crate) fn succeed(&mut self, before: &Self, now_ns: u64) {
        match (self, before) {
            (Self::TokenBucket(bucket), before) => bucket.hold(before.spendable(now_ns)),
            (Self::FixedWindow(window), Self::FixedWindow(before)) => window.succeed(before),
            (Self::FirstUseWindow(window), Self::FirstUseWindow(before)) => window.succeed(before),
            (Self::SlidingWindow(window), Self::SlidingWindow(before)) => window.succeed(before),
            (
                Self::FixedWindow(_) | Self::FirstUseWindow(_) | Self::SlidingWindow(_) | Self::LeakyBucket(_),
                Self::TokenBucket(_)
                | Self::FixedWindow(_)
                | Self::FirstUseWindow(_)
                | Self::SlidingWindow(_)
                | Self::LeakyBucket(_),
            ) => {}
        }
    }

    /// How long after `now_ns` it can spend its capacity again without another call; `None` if it
    /// never can.
    pub(crate) fn full_in_ns(&self, now_ns: u64) -> Option<u128> {
        match self {
            Self::TokenBucket(bucket) => bucket.full_in_ns(now_ns),
            Self::FixedWindow(window) => Some(window.full_in_ns(now_ns).into()),
            Self::FirstUseWindow(window) => Some(window.full_in_ns(now_ns).into()),
            Self::SlidingWindow(window) => Some(window.full_in_ns(now_ns).into()),
            Self::LeakyBucket(bucket) => bucket.full_in_ns(now_ns),
        }
    }

    /// What could be spent at `now_ns`, rounded down to a micro-unit.
    pub(crate) fn spendable(&self, now_ns: u64) -> Amount {
        match self {
            Self::TokenBucket(bucket) => bucket.spendable(now_ns),
            Self::FixedWindow(window) => window.spendable(now_ns),
            Self::FirstUseWindow(window) => window.spendable(now_ns),
            Self::SlidingWindow(window) => window.spendable(now_ns),
            Self::LeakyBucket(bucket) => bucket.spendable(now_ns),
        }
    }

    /// Why `cost` cannot be paid at the time of the last advance.
    pub(crate) fn refusal(&self, cost: Amount) -> Option<Rejection> {
        match self {
            Self::TokenBucket(bucket) => bucket.refusal(cost),
            Self::FixedWindow(window) => window.refusal(cost),
            Self::FirstUseWindow(window) => window.refusal(cost),
            Self::SlidingWindow(window) => window.refusal(cost),
            Self::LeakyBucket(bucket) => bucket.refusal(cost),
        }
    }

    /// Takes the `cost` of an admitted call, which [`Self::refusal`] has just allowed.
    pub(crate) fn charge(&mut self, cost: Amount) {
        match self {
            Self::TokenBucket(bucket) => bucket.charge(cost),
            Self::FixedWindow(window) => window.charge(cost),
            Self::FirstUseWindow(window) => window.charge(cost),
            Self::SlidingWindow(window) => window.charge(cost),
            Self::LeakyBucket(bucket) => bucket.fill(cost),
        }
    }

    /// Counts a rejected call, whatever the reason of the rejection was.
    pub(crate) fn reject(&mut self, cost: Amount) {
        match self {
            Self::TokenBucket(_) | Self::FixedWindow(_) | Self::FirstUseWindow(_) | Self::SlidingWindow(_) => {}
            Self::LeakyBucket(bucket) => bucket.fill(cost),
        }
    }
}

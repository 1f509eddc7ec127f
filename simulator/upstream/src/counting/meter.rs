//! The state of one policy.

use crate::{
    Amount, Policy, Rejection, counting::sliding_window::SlidingWindow, counting::token_bucket::TokenBucket,
    counting::window::Window, policy::model::Model,
};

/// The state of a policy. Without calls the spendable amount never falls, so that all can pay after the longest wait.
#[derive(Clone, Debug)]
pub(crate) enum Meter {
    TokenBucket(TokenBucket),
    Window(Window),
    SlidingWindow(SlidingWindow),
}

impl Meter {
    /// Creates a meter. Windows are counted from `since_ns` before the origin of time.
    pub(crate) fn new(policy: &Policy, since_ns: u128) -> Self {
        match policy.model() {
            Model::TokenBucket(variant) => Self::TokenBucket(TokenBucket::new(policy, variant)),
            Model::Window(start) => Self::Window(Window::new(policy, start, since_ns)),
            Model::SlidingWindow => Self::SlidingWindow(SlidingWindow::new(policy)),
            Model::LeakyBucket => Self::TokenBucket(TokenBucket::leaky(policy)),
        }
    }

    /// Notes a call at `now_ns`, whatever it costs. An earlier time counts as the last one.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        match self {
            Self::TokenBucket(bucket) => bucket.advance(now_ns),
            Self::Window(window) => window.advance(now_ns),
            Self::SlidingWindow(window) => window.advance(now_ns),
        }
    }

    /// Takes over from another policy's meter: a bucket its level as far as it fits, a window its use, others nothing.
    pub(crate) fn succeed(&mut self, before: &Self, now_ns: u64) {
        match (self, before) {
            (Self::TokenBucket(bucket), before) => bucket.hold(before.spendable(now_ns)),
            (Self::Window(window), Self::Window(before)) => window.succeed(before),
            (Self::SlidingWindow(window), Self::SlidingWindow(before)) => window.succeed(before),
            (Self::Window(_), Self::TokenBucket(_) | Self::SlidingWindow(_))
            | (Self::SlidingWindow(_), Self::TokenBucket(_) | Self::Window(_)) => {}
        }
    }

    /// Returns how long after `now_ns` it is full again without another call; `None` if never.
    pub(crate) fn full_in_ns(&self, now_ns: u64) -> Option<u128> {
        match self {
            Self::TokenBucket(bucket) => bucket.full_in_ns(now_ns),
            Self::Window(window) => Some(window.full_in_ns(now_ns)),
            Self::SlidingWindow(window) => Some(window.full_in_ns(now_ns).into()),
        }
    }

    /// Returns what could be spent at `now_ns`, rounded down to a micro-unit.
    pub(crate) fn spendable(&self, now_ns: u64) -> Amount {
        match self {
            Self::TokenBucket(bucket) => bucket.spendable(now_ns),
            Self::Window(window) => window.spendable(now_ns),
            Self::SlidingWindow(window) => window.spendable(now_ns),
        }
    }

    /// Returns why `cost` cannot be paid at the time of the last advance.
    pub(crate) fn refusal(&self, cost: Amount) -> Option<Rejection> {
        match self {
            Self::TokenBucket(bucket) => bucket.refusal(cost),
            Self::Window(window) => window.refusal(cost),
            Self::SlidingWindow(window) => window.refusal(cost),
        }
    }

    /// Takes the `cost` of an admitted call, which [`Self::refusal`] has just allowed.
    pub(crate) fn charge(&mut self, cost: Amount) {
        match self {
            Self::TokenBucket(bucket) => bucket.charge(cost),
            Self::Window(window) => window.charge(cost),
            Self::SlidingWindow(window) => window.charge(cost),
        }
    }

    /// Counts a rejected call, whatever the reason of the rejection.
    pub(crate) fn reject(&mut self, cost: Amount) {
        match self {
            Self::TokenBucket(bucket) => bucket.reject(cost),
            Self::Window(_) | Self::SlidingWindow(_) => {}
        }
    }
}

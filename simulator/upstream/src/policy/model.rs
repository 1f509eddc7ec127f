//! The models by which policies count.

use crate::Amount;
use std::num::NonZeroU64;

pub(crate) const FIXED_WINDOW: &str = "fixed-window";
pub(crate) const PHASE: &str = "phase";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    TokenBucket(Variant),
    Window(WindowStart),
    SlidingWindow,
    LeakyBucket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowStart {
    /// This long after multiples of the period.
    Aligned { phase_ns: u64 },
    /// With the first call after the last window.
    FirstUse,
}

/// How a token bucket differs from one that starts full, holds its capacity and refills evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variant {
    /// What it holds; by default the capacity.
    pub(crate) burst: Option<Amount>,
    /// Its level at the origin of time; by default full.
    pub(crate) start: Option<Amount>,
    /// Time between refills; by default the refill is even.
    pub(crate) tick_ns: Option<NonZeroU64>,
    pub(crate) whole: bool,
}

impl Model {
    /// Returns the variant of a token bucket, or the option that selects another model.
    pub(crate) fn variant(self) -> Result<Variant, &'static str> {
        match self {
            Self::TokenBucket(variant) => Ok(variant),
            Self::Window(WindowStart::Aligned { .. }) => Err(FIXED_WINDOW),
            Self::Window(WindowStart::FirstUse) => Err("first-use"),
            Self::SlidingWindow => Err("sliding-window"),
            Self::LeakyBucket => Err("leaky-bucket"),
        }
    }

    pub(crate) fn phase_ns(self) -> u64 {
        match self {
            Self::Window(WindowStart::Aligned { phase_ns }) => phase_ns,
            Self::Window(WindowStart::FirstUse) | Self::TokenBucket(_) | Self::SlidingWindow | Self::LeakyBucket => 0,
        }
    }

    /// Returns the first option that differs from the default.
    pub(crate) fn option(self) -> Option<&'static str> {
        self.variant().map_or_else(Some, Variant::option)
    }
}

impl Variant {
    pub(crate) fn holds(self, capacity: Amount) -> Amount {
        self.burst.unwrap_or(capacity)
    }

    fn option(self) -> Option<&'static str> {
        let stated = [
            self.burst.map(|_| "burst"),
            self.start.map(|_| "start"),
            self.tick_ns.map(|_| "tick"),
            self.whole.then_some("whole"),
        ];
        stated.into_iter().flatten().next()
    }
}

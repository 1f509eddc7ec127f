//! How workers respect the limits, or fail to.

use crate::rng::Rng;
use rampmeter_protocol::time::Span;
use std::str::FromStr;

rampmeter_protocol::named! {
    /// A way to share an account.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum Strategy {
        /// Each worker alone: call at once, and pause longer after each 429, with jitter.
        BackOff = "back-off",
        /// Call at once; after a 429 wait for its `Retry-After` with a little jitter, or back off.
        RetryAfter = "retry-after",
        /// Each worker respects its part of every limit, which no other worker may use.
        StaticShare = "static-share",
        /// A central counter: take from all buckets now, and wait until none is negative.
        PlainRule = "plain-rule",
        /// Rampmeter's exact starts, promised at once (mode `reserve`).
        Reserve = "reserve",
        /// Rampmeter's exact starts, promised when the request's turn comes (mode `wait`).
        #[default]
        LateBinding = "late-binding",
    }
}

/// The upper bounds of the first pause and of all pauses. The bound doubles with each pause.
const FIRST_PAUSE: Span = Span::from_secs(2);
const LONGEST_PAUSE: Span = Span::from_secs(60);

impl Strategy {
    /// Returns how long a worker pauses after its `attempts`th 429 in a row.
    #[must_use]
    pub fn pause(self, attempts: u32, retry_after: Option<Span>, dice: &mut Rng) -> Span {
        match (self, retry_after) {
            (Strategy::BackOff, _) | (Strategy::RetryAfter, None) => {
                let longest =
                    Span::from_nanos(FIRST_PAUSE.nanos() << attempts.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
                dice.between(Span::ZERO, longest)
            }
            (Strategy::RetryAfter, Some(wait)) => {
                let tenth = Span::from_nanos(wait.nanos() / 10);
                dice.between(wait, wait + tenth)
            }
            (Strategy::StaticShare | Strategy::PlainRule | Strategy::Reserve | Strategy::LateBinding, _) => Span::ZERO,
        }
    }
}

impl FromStr for Strategy {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let strategies = "a strategy is back-off, retry-after, static-share, plain-rule, reserve or late-binding";
        Strategy::named(name).ok_or(strategies)
    }
}

//! The policy for requests while no scheduler answers.

use super::unreachable::Unreachable;
use crate::bucket::Bucket;
use crate::rng::Rng;
use rampmeter_protocol::time::{Span, Time};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum FallbackPolicy {
    #[default]
    Wait,
    /// Requests are refused, with a time to come back.
    Refusal { after: Span },
    /// Requests are granted one by one at the safe rate.
    SafeRate(Bucket),
}

impl From<Unreachable> for FallbackPolicy {
    fn from(policy: Unreachable) -> Self {
        match policy {
            Unreachable::Wait => FallbackPolicy::Wait,
            Unreachable::Fail { after } => FallbackPolicy::Refusal { after: after.span() },
            Unreachable::SafeRate { rate, .. } => FallbackPolicy::SafeRate(Bucket::new(rate.interval(), 1)),
        }
    }
}

impl FallbackPolicy {
    /// Moves the first local permit after a rest to a random time within an interval.
    pub(crate) fn stagger(&mut self, from: Time, dice: &mut Rng) {
        match self {
            FallbackPolicy::SafeRate(turns) if turns.opens() <= from => {
                turns.hold_until(from + dice.span_up_to(turns.interval()));
            }
            FallbackPolicy::SafeRate(_) | FallbackPolicy::Wait | FallbackPolicy::Refusal { .. } => {}
        }
    }
}

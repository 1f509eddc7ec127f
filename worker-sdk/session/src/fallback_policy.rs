//! Who serves those who ask while nobody answers.

use super::bucket::Bucket;
use super::dice::Dice;
use super::unreachable::Unreachable;
use rampmeter_protocol::time::{Span, Time};

/// A lane's policy, at work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum FallbackPolicy {
    /// They wait.
    #[default]
    Nobody,
    /// They are told to come back.
    Refusal { after: Span },
    /// They take their turns.
    Turns(Bucket),
}

impl From<Unreachable> for FallbackPolicy {
    fn from(policy: Unreachable) -> Self {
        match policy {
            Unreachable::Wait => FallbackPolicy::Nobody,
            Unreachable::Fail { after } => FallbackPolicy::Refusal { after: after.span() },
            Unreachable::SafeRate { rate, .. } => FallbackPolicy::Turns(Bucket::new(rate.interval(), 1)),
        }
    }
}

impl FallbackPolicy {
    /// Lets the first turn after a rest come by chance within an interval.
    pub(super) fn stagger(&mut self, from: Time, dice: &mut Dice) {
        match self {
            FallbackPolicy::Turns(turns) if turns.opens() <= from => {
                turns.hold_until(from + dice.span_up_to(turns.interval()));
            }
            FallbackPolicy::Turns(_) | FallbackPolicy::Nobody | FallbackPolicy::Refusal { .. } => {}
        }
    }
}

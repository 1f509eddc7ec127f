//! Who serves those who ask while nobody answers.

use super::bucket::Bucket;
use super::dice::Dice;
use super::unreachable::Unreachable;
use rampmeter_protocol::time::{Span, Time};

/// A lane's policy, at work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Substitute {
    /// They wait.
    #[default]
    Nobody,
    /// They are told to come back.
    Refusal { after: Span },
    /// They take their turns.
    Turns(Bucket),
}

impl From<Unreachable> for Substitute {
    fn from(policy: Unreachable) -> Self {
        match policy {
            Unreachable::Wait => Substitute::Nobody,
            Unreachable::Fail { after } => Substitute::Refusal { after: after.span() },
            Unreachable::SafeRate { rate, .. } => Substitute::Turns(Bucket::new(rate.interval(), 1)),
        }
    }
}

impl Substitute {
    /// Lets the first turn after a rest come by chance within an interval.
    pub(super) fn stagger(&mut self, from: Time, dice: &mut Dice) {
        match self {
            Substitute::Turns(turns) if turns.opens() <= from => {
                turns.hold_until(from + dice.span_up_to(turns.interval()));
            }
            Substitute::Turns(_) | Substitute::Nobody | Substitute::Refusal { .. } => {}
        }
    }
}

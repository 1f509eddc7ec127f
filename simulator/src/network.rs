//! How late messages and calls are.

use crate::dice::Dice;
use rampmeter_protocol::time::Span;

/// A delay between two bounds, each value as likely as any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The shortest.
    pub least: Span,
    /// The longest.
    pub most: Span,
}

impl Delay {
    /// Always the same.
    #[must_use]
    pub const fn fixed(span: Span) -> Self {
        Delay { least: span, most: span }
    }

    /// From nothing to `most`.
    #[must_use]
    pub const fn up_to(most: Span) -> Self {
        Delay { least: Span::ZERO, most }
    }

    pub(crate) fn draw(self, dice: &mut Dice) -> Span {
        dice.between(self.least, self.most)
    }
}

/// The ways between workers, scheduler and upstream.
///
/// What the margin has to cover is how much the lateness of a grant and its call together *varies*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// From a worker to the scheduler.
    pub request: Delay,
    /// From the scheduler to a worker.
    pub grant: Delay,
    /// From a worker to the upstream.
    pub call: Delay,
    /// From a call's arrival until the worker has its response.
    pub response: Delay,
}

impl Default for Network {
    /// A millisecond to the scheduler, up to twenty back; five to an upstream that answers within 150.
    fn default() -> Self {
        Network {
            request: Delay::fixed(Span::from_millis(1)),
            grant: Delay::up_to(Span::from_millis(20)),
            call: Delay::fixed(Span::from_millis(5)),
            response: Delay { least: Span::from_millis(50), most: Span::from_millis(150) },
        }
    }
}

//! How long nothing may be heard of a request.

use super::dice::Dice;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::Span;

/// A scheduler that lives speaks of a waiting request every 5 s; two of those may be lost.
const WAITING: Span = Span::from_secs(12);
/// Modes `allow` and `reserve` are answered at once.
const AT_ONCE: Span = Span::from_secs(2);
/// A scheduler speaks to a whole fleet in one moment, the last time too; this part is added by chance.
const JITTER: u64 = 8;

/// One client's patience. Its requests share it: what fell silent together is asked again together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    waiting: Span,
    at_once: Span,
}

impl Silence {
    pub(super) fn new(dice: &mut Dice) -> Self {
        let mut jittered = |span: Span| span + dice.span_up_to(Span::from_nanos(span.nanos() / JITTER));
        Silence { waiting: jittered(WAITING), at_once: jittered(AT_ONCE) }
    }

    pub(super) fn longest(self, mode: Mode) -> Span {
        match mode {
            Mode::Wait => self.waiting,
            Mode::Allow | Mode::Reserve => self.at_once,
        }
    }
}

//! How long a scheduler may be silent about a request.

use crate::rng::Rng;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::Span;

/// A live scheduler reports on a waiting request every 5 s. Two reports may be lost.
const WAITING: Span = Span::from_secs(12);
/// A scheduler answers modes `allow` and `reserve` at once.
const AT_ONCE: Span = Span::from_secs(2);
/// A scheduler reports to a whole fleet in one moment, so that its silence begins for all at once.
/// Up to an eighth of the longest silence is therefore added at random.
const JITTER: u64 = 8;

/// How long a scheduler may be silent before a request is repeated, by the request's mode. All
/// requests of a client share it, so that those that fell silent together are repeated together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongestSilence {
    waiting: Span,
    at_once: Span,
}

impl LongestSilence {
    pub(crate) fn new(dice: &mut Rng) -> Self {
        let mut jittered = |span: Span| span + dice.span_up_to(Span::from_nanos(span.nanos() / JITTER));
        LongestSilence { waiting: jittered(WAITING), at_once: jittered(AT_ONCE) }
    }

    pub(crate) fn of(self, mode: Mode) -> Span {
        match mode {
            Mode::Wait => self.waiting,
            Mode::Allow | Mode::Reserve => self.at_once,
        }
    }
}

//! The longest silence of a scheduler about a request.

use crate::rng::Rng;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::Span;

/// A scheduler reports on a waiting request every 3 s (5 s are allowed), so two may be lost.
const WAITING: Span = Span::from_secs(12);
/// A scheduler answers modes `allow` and `reserve` at once.
const AT_ONCE: Span = Span::from_secs(2);
/// A relay reports a silence to its clients after a second. Until then a lost message is sent
/// again, and one report may be lost.
const RELAY_WAITING: Span = Span::from_secs(6);
const RELAY_AT_ONCE: Span = Span::from_millis(400);
/// How long a relay waits at a deadline for the scheduler's own refusal, which it asks for after half of this time.
const RELAY_GRACE: Span = Span::from_secs(1);
/// Up to an eighth of the longest silence is added at random: it begins at one moment for a whole fleet.
const JITTER: u64 = 8;

/// The silence after which requests are repeated, shared by all of a client, so that they are repeated together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongestSilence {
    waiting: Span,
    at_once: Span,
    /// How much later than its deadline a request is given up; zero except for relays.
    pub(crate) grace: Span,
}

impl LongestSilence {
    pub(crate) fn new(dice: &mut Rng) -> Self {
        LongestSilence { waiting: jittered(WAITING, dice), at_once: jittered(AT_ONCE, dice), grace: Span::ZERO }
    }

    pub(crate) fn for_http_front(dice: &mut Rng) -> Self {
        let (waiting, at_once) = (jittered(RELAY_WAITING, dice), jittered(RELAY_AT_ONCE, dice));
        LongestSilence { waiting, at_once, grace: RELAY_GRACE }
    }

    /// Returns the longest silence for the request's mode. A scheduler reports at once that a
    /// request waits, but only a relay insists on that.
    pub(crate) fn of(self, mode: Mode, is_answered: bool) -> Span {
        match mode {
            Mode::Wait if is_answered || self.grace == Span::ZERO => self.waiting,
            Mode::Wait | Mode::Allow | Mode::Reserve => self.at_once,
        }
    }
}

fn jittered(span: Span, dice: &mut Rng) -> Span {
    span + dice.span_up_to(Span::from_nanos(span.nanos() / JITTER))
}

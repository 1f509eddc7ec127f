//! Randomness for jitter and ids, equal on every machine and in every version.

use rampmeter_protocol::splitmix::SplitMix64;
use rampmeter_protocol::time::Span;

#[derive(Clone, Debug)]
pub(super) struct Rng(SplitMix64);

/// Requests refused at one moment come back spread over up to a fourth more time.
const COME_BACK_JITTER: u64 = 4;

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Rng(SplitMix64::new(seed))
    }

    /// Draws a number from 0 to `most`. The remainder's bias does not matter for jitter and ids.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        self.0.draw() % most.saturating_add(1)
    }

    pub(super) fn span_up_to(&mut self, most: Span) -> Span {
        Span::from_nanos(self.up_to(most.nanos()))
    }

    /// Returns a time to come back: `after`, and up to a fourth of it more.
    pub(super) fn jittered(&mut self, after: Span) -> Span {
        after + self.span_up_to(Span::from_nanos(after.nanos() / COME_BACK_JITTER))
    }
}

//! Random numbers that can be repeated.

use rampmeter_protocol::splitmix::SplitMix64;
use rampmeter_protocol::time::Span;

/// Randomness for jitter and ids. It is the same on every machine and in every version.
#[derive(Clone, Debug)]
pub(super) struct Rng(SplitMix64);

/// Requests that are refused in one moment get the same time to come back. Up to a fourth of that
/// time is added at random.
const COME_BACK_JITTER: u64 = 4;

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Rng(SplitMix64::new(seed))
    }

    /// A number from 0 to `most`. The bias of the remainder does not matter for jitter and ids.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        self.0.draw() % most.saturating_add(1)
    }

    /// A span from zero to `most`.
    pub(super) fn span_up_to(&mut self, most: Span) -> Span {
        Span::from_nanos(self.up_to(most.nanos()))
    }

    /// A time to come back: `after`, and up to a fourth of it more.
    pub(super) fn jittered(&mut self, after: Span) -> Span {
        after + self.span_up_to(Span::from_nanos(after.nanos() / COME_BACK_JITTER))
    }
}

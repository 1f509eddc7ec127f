//! Chance that can be repeated.

use rampmeter_protocol::time::Span;

/// The generator `SplitMix64`: its state is its seed, and it is the same on every machine and in every
/// version, which the small generators of the crate `rand` do not promise.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// A number from 0 to `most`. The bias of the remainder is of no interest in jitter and names.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        self.next() % most.saturating_add(1)
    }

    /// A span from zero to `most`.
    pub(super) fn span_up_to(&mut self, most: Span) -> Span {
        Span::from_nanos(self.up_to(most.nanos()))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

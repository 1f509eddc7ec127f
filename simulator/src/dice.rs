//! Chance that can be repeated.

use rampmeter_protocol::time::Span;

/// The generator `SplitMix64`: the same on every machine and in every version.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// Chance of its own for somebody or something, which does not depend on how often this one is asked.
    pub(crate) fn fork(&self, number: u64) -> Dice {
        let mut other = Dice(self.0 ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03));
        Dice(other.next())
    }

    /// A span from `least` to `most`. The bias of the remainder is of no interest in jitter.
    pub fn between(&mut self, least: Span, most: Span) -> Span {
        let width = most.saturating_sub(least).nanos();
        least + Span::from_nanos(self.next() % width.saturating_add(1))
    }

    /// A number from `least` to `most`.
    pub fn number(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// Whether something happens that does so with this probability.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.fraction() < probability
    }

    /// An exponentially distributed number about this mean. The logarithm is the same on every machine.
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        (-libm::log(1.0 - self.fraction()) * mean as f64) as u64
    }

    /// A number from 0 to below 1, in steps that a float tells apart.
    fn fraction(&mut self) -> f64 {
        const STEPS: u64 = 1 << 53;
        (self.next() % STEPS) as f64 / STEPS as f64
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

//! Random numbers that a seed reproduces.

use rampmeter_protocol::splitmix::SplitMix64;
use rampmeter_protocol::time::Span;

/// A random number generator, whose numbers for a seed never differ between machines and versions.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// Creates the generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Rng(SplitMix64::new(seed))
    }

    /// Returns an independent generator for one worker or part, whatever else this one draws.
    pub(crate) fn fork(&self, number: u64) -> Rng {
        Rng(self.0.fork(number))
    }

    /// Draws a span from `least` to `most`. The remainder's slight bias does not matter for jitter.
    pub fn between(&mut self, least: Span, most: Span) -> Span {
        let width = most.saturating_sub(least).nanos();
        least + Span::from_nanos(self.0.draw() % width.saturating_add(1))
    }

    /// Draws a number from `least` to `most`.
    pub fn number(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.draw() % (most - least + 1)
    }

    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.fraction() < probability
    }

    /// Draws an exponentially distributed number, by a logarithm equal on every machine.
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        (-libm::log(1.0 - self.fraction()) * mean as f64) as u64
    }

    /// Draws a number from 0 to below 1, in steps that a float represents exactly.
    fn fraction(&mut self) -> f64 {
        const STEPS: u64 = 1 << 53;
        (self.0.draw() % STEPS) as f64 / STEPS as f64
    }
}

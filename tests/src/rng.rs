//! Random numbers that a seed repeats.

use rampmeter_protocol::splitmix::SplitMix64;
use std::ops::Range;
use std::time::Duration;

/// Good enough for faults, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// Dice for this seed.
    pub fn new(seed: u64) -> Self {
        Rng(SplitMix64::new(seed))
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.0.draw() % 100 < percent
    }

    /// A time in `range`, to the millisecond.
    pub fn span(&mut self, range: Range<Duration>) -> Duration {
        let width = (range.end - range.start).as_millis().max(1);
        let ahead = u128::from(self.0.draw()) % width;
        range.start + Duration::from_millis(u64::try_from(ahead).unwrap_or_default())
    }
}

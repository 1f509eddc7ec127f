//! Chance that can be repeated.

use std::ops::Range;
use std::time::Duration;

/// `SplitMix64`: good enough for faults, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that fall as `seed` says.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// Whether something happens that does in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// Some time in `range`, to the millisecond.
    pub fn span(&mut self, range: Range<Duration>) -> Duration {
        let width = (range.end - range.start).as_millis().max(1);
        let ahead = u128::from(self.next()) % width;
        range.start + Duration::from_millis(u64::try_from(ahead).unwrap_or_default())
    }

    /// The time between two of many arrivals that know nothing of each other, `mean` apart.
    pub fn arrival(&mut self, mean: Duration) -> Duration {
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64(-(1.0 - uniform).ln())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

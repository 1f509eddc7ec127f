//! Reproducible pseudo-random numbers.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator `SplitMix64` (Steele, Lea and Flood, 2014), whose state is its seed. Unlike the
/// small generators of `rand`, it promises the same numbers on every machine and in every version.
///
/// ```
/// use rampmeter_protocol::splitmix::SplitMix64;
///
/// // The reference implementation's first numbers for this seed.
/// let mut chance = SplitMix64::new(1_234_567);
/// assert_eq!([chance.draw(), chance.draw()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates the generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// Returns the next number.
    pub const fn draw(&mut self) -> u64 {
        let drawn = scatter(self.0);
        self.0 = self.0.wrapping_add(STEP);
        drawn
    }

    /// Returns generator `number` of those derived from this one, which later draws do not affect.
    #[must_use]
    pub const fn fork(&self, number: u64) -> Self {
        SplitMix64(scatter(self.0 ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03)))
    }
}

/// Returns the first number of the seed `number`, which spreads numbers evenly.
#[must_use]
pub const fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

//! Response times of admitted calls.

use std::time::Duration;

/// A response time: a fixed part, and a random one, even between zero and a bound, by the seed and the call's number.
///
/// ```
/// use rampmeter_upstream::ResponseTime;
/// use std::time::Duration;
///
/// let (fixed, bound) = (Duration::from_millis(80), Duration::from_millis(40));
/// let response_time = ResponseTime::fixed(fixed).with_jitter(bound, 7);
/// assert!((fixed..=fixed + bound).contains(&response_time.of_call(0)));
/// assert_eq!(response_time.of_call(3), response_time.of_call(3));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseTime {
    fixed: Duration,
    jitter_ns: u64,
    seed: u64,
}

impl ResponseTime {
    /// Creates a constant time.
    #[must_use]
    pub const fn fixed(time: Duration) -> Self {
        Self { fixed: time, jitter_ns: 0, seed: 0 }
    }

    /// Adds a random time up to `bound` (584 years at most).
    #[must_use]
    pub fn with_jitter(self, bound: Duration, seed: u64) -> Self {
        let jitter_ns = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Self { jitter_ns, seed, ..self }
    }

    /// Returns the time of the admitted call with this number, counted from zero.
    #[must_use]
    pub fn of_call(&self, number: u64) -> Duration {
        let span = u128::from(self.jitter_ns) + 1;
        let scaled = u128::from(scramble(self.seed, number)) * span;
        // The upper half of the product: below `span`, which is one above a `u64`.
        let jitter_ns = u64::try_from(scaled >> u64::BITS).unwrap_or(u64::MAX);
        self.fixed.saturating_add(Duration::from_nanos(jitter_ns))
    }

    /// Returns the longest time that a call can take.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.fixed.saturating_add(Duration::from_nanos(self.jitter_ns))
    }
}

/// Returns element `number` of the `SplitMix64` sequence that starts at `seed`.
fn scramble(seed: u64, number: u64) -> u64 {
    let mut mixed = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_stay_in_range() {
        #[rustfmt::skip]
        let table = [
            (ResponseTime::default(),                                             Duration::ZERO),
            (ResponseTime::fixed(Duration::from_secs(1)),                          Duration::from_secs(1)),
            (ResponseTime::fixed(Duration::MAX).with_jitter(Duration::MAX, 1),     Duration::MAX),
            (ResponseTime::default().with_jitter(Duration::MAX, u64::MAX),         Duration::from_nanos(u64::MAX)),
        ];
        for (response_time, longest) in table {
            assert_eq!(response_time.longest(), longest);
            assert!((0..100).all(|number| response_time.of_call(number) <= longest));
        }
    }
}

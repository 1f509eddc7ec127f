//! When to try again without coordination.

use std::time::Duration;

/// The first back-off is at most this, as in most clients of cloud services.
const FIRST: Duration = Duration::from_millis(100);
/// No back-off is longer, likewise.
const LONGEST: Duration = Duration::from_secs(20);

/// Exponential back-off with full jitter, for the attempts of one call.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after one more 429 that said to come back after `told`. `dice` is uniform in 0..1.
    ///
    /// Never earlier than told; the jitter comes on top, as all others were told the same.
    pub(super) fn after(&mut self, told: Duration, dice: f64) -> Duration {
        let most = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures += 1;
        told + most.mul_f64(dice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_longest_on_top_of_what_was_told() {
        let mut backoff = Backoff::default();
        let mut after = |told, dice| backoff.after(Duration::from_millis(told), dice).as_millis();
        assert_eq!([after(0, 1.0), after(0, 0.5), after(30, 1.0), after(30, 0.0)], [100, 100, 430, 30]);
        assert_eq!((0..40).map(|_| after(5, 1.0)).last(), Some(20_005));
    }
}

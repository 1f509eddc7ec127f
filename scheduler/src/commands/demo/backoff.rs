//! The wait before another try without coordination.

use std::time::Duration;

/// The longest first back-off, as in most clients of cloud services.
const FIRST: Duration = Duration::from_millis(100);
/// The longest of all back-offs, as in most clients of cloud services.
pub(super) const LONGEST: Duration = Duration::from_secs(20);

/// Exponential back-off with full jitter, for the attempts of one call.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after another 429 with this `retry_after`. `dice` is uniform in 0..1.
    ///
    /// The wait is never shorter than `retry_after`. The jitter is added, since all workers got the
    /// same `retry_after`.
    pub(super) fn after(&mut self, retry_after: Duration, dice: f64) -> Duration {
        let most = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures += 1;
        retry_after + most.mul_f64(dice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_a_bound_and_comes_on_top_of_retry_after() {
        let mut backoff = Backoff::default();
        let mut after = |retry_after, dice| backoff.after(Duration::from_millis(retry_after), dice).as_millis();
        assert_eq!([after(0, 1.0), after(0, 0.5), after(30, 1.0), after(30, 0.0)], [100, 100, 430, 30]);
        assert_eq!((0..40).map(|_| after(5, 1.0)).last(), Some(20_005));
    }
}

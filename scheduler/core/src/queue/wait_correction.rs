//! Corrects estimated waits so that their median is right.

use rampmeter_protocol::time::{Span, Time};
use std::cmp::Ordering;

/// By how much estimates change while the requests of one queue are served.
const PPM_PER_QUEUE: u64 = 50_000;
/// A shorter queue counts as this long, so that a few requests change little.
const SHORTEST_QUEUE: usize = 100;
const ONE: u64 = 1_000_000;
/// Estimates are at most halved or doubled.
const BOUNDS: (u64, u64) = (ONE / 2, ONE * 2);

/// The factor on estimated waits of a class, so that their median is right.
///
/// A request that starts later than estimated raises the factor. One that starts earlier lowers it
/// by as much: frugal streaming (Ma, Muthukrishnan and Sandler, 2013). In a longer queue, each
/// request changes the factor less, because the effect shows only later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitCorrection {
    ppm: u64,
}

impl WaitCorrection {
    pub(crate) const NONE: WaitCorrection = WaitCorrection { ppm: ONE };

    /// The corrected start of a request, if the estimate is `at`.
    pub(crate) fn correct(self, now: Time, at: Time) -> Time {
        let nanos = u128::from(at.since(now).nanos()) * u128::from(self.ppm) / u128::from(ONE);
        now + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Learns from a request that starts at `start` and was sent `estimated`, while `waiting`
    /// requests wait.
    pub(crate) fn learn(&mut self, estimated: Time, start: Time, waiting: usize) {
        let step = PPM_PER_QUEUE / waiting.max(SHORTEST_QUEUE) as u64;
        let ppm = match start.cmp(&estimated) {
            Ordering::Less => self.ppm.saturating_sub(step),
            Ordering::Equal => self.ppm,
            Ordering::Greater => self.ppm + step,
        };
        self.ppm = ppm.clamp(BOUNDS.0, BOUNDS.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_starts_raise_estimates_and_early_ones_lower_them_within_bounds() {
        let [now, estimated] = [Time::ORIGIN, Time::ORIGIN + Span::from_secs(10)];
        let corrected_by = |start: Span, count: usize| {
            let mut correction = WaitCorrection::NONE;
            (0..count).for_each(|_| correction.learn(estimated, now + start, 50));
            correction.correct(now, estimated).since(now)
        };
        assert_eq!(corrected_by(Span::from_secs(10), 100), Span::from_secs(10));
        assert_eq!(corrected_by(Span::from_secs(11), 1), Span::from_millis(10_005));
        assert_eq!(corrected_by(Span::from_secs(9), 2), Span::from_millis(9_990));
        assert_eq!(corrected_by(Span::from_secs(9), 100_000), Span::from_secs(5));
        assert_eq!(corrected_by(Span::from_secs(11), 100_000), Span::from_secs(20));
    }
}

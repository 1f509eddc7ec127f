//! A local rate limit with a burst: the generic cell rate algorithm in whole nanoseconds.

use rampmeter_protocol::time::{Span, Time};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    interval: Span,
    /// How far ahead of time tokens may be spent.
    slack: Span,
    spent_until: Time,
}

impl Bucket {
    /// Creates a full bucket, which gives `burst` tokens at once.
    pub(crate) fn new(interval: Span, burst: u64) -> Self {
        assert!(interval > Span::ZERO && burst > 0, "a bucket has a rate, and holds at least one");
        let slack = Span::from_nanos(interval.nanos().saturating_mul(burst - 1));
        Bucket { interval, slack, spent_until: Time::ORIGIN }
    }

    pub(crate) fn opens(&self) -> Time {
        self.spent_until - self.slack
    }

    pub(crate) fn opens_behind(&self, ahead: u64) -> Time {
        self.opens() + Span::from_nanos(self.interval.nanos().saturating_mul(ahead))
    }

    pub(crate) fn interval(&self) -> Span {
        self.interval
    }

    /// Gives nothing before `until`, and no burst at that time.
    pub(crate) fn hold_until(&mut self, until: Time) {
        self.spent_until = self.spent_until.max(until + self.slack);
    }

    pub(crate) fn take(&mut self, now: Time) {
        assert!(self.opens() <= now, "nothing is there before {}", self.opens());
        self.spent_until = self.spent_until.max(now) + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Time = Time::from_nanos(1_000_000_000);

    /// Takes each token as early as possible, from the first second on. Times are milliseconds after that second.
    fn check(interval_ms: u64, burst: u64, rest_ms: u64, taken_ms: &[u64]) {
        let mut bucket = Bucket::new(Span::from_millis(interval_ms), burst);
        bucket.take(SECOND);
        let mut now = SECOND + Span::from_millis(rest_ms);
        for expected in taken_ms {
            now = now.max(bucket.opens());
            bucket.take(now);
            assert_eq!(now.since(SECOND), Span::from_millis(*expected));
        }
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        check(10, 1, 0, &[10, 20, 30]);
        check(10, 1, 95, &[95, 105, 115]);
        check(10, 3, 0, &[0, 0, 10, 20]);
        check(10, 3, 4, &[4, 4, 10, 20]);
        check(10, 3, 500, &[500, 500, 500, 510]);
    }
}

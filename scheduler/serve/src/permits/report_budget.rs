//! The part of a permit loop's time that reports may take.

use rampmeter_protocol::time::{Span, Time};

/// Reports take one part in this many of the loop's time, because status, explanations and metrics
/// walk along buckets and queues while requests wait.
const PART: u64 = 5;
/// The time that reports may take at once, after a pause.
const SAVED: Span = Span::from_millis(20);
/// The greatest age of a report that is sent again.
pub(crate) const OLDEST: Span = Span::from_secs(1);

/// The time that was spent on reports, as a rate with a burst.
#[derive(Debug, Default)]
pub(crate) struct ReportBudget {
    /// The time at which all that was spent is paid for.
    paid_at: Time,
}

impl ReportBudget {
    /// Whether a report may be made at `now`.
    pub(crate) fn allows(&self, now: Time) -> bool {
        self.paid_at <= now + paid(SAVED)
    }

    /// Notes that a report took this long.
    pub(crate) fn spend(&mut self, now: Time, took: Span) {
        self.paid_at = self.paid_at.max(now) + paid(took);
    }
}

/// The time in which the loop earns this much time for reports.
fn paid(spent: Span) -> Span {
    Span::from_nanos(spent.nanos().saturating_mul(PART))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_take_a_fifth_of_the_time() {
        let (mut budget, mut now, mut spent) = (ReportBudget::default(), Time::ORIGIN, Span::ZERO);
        let took = Span::from_millis(3);
        while now < Time::ORIGIN + Span::from_secs(10) {
            if budget.allows(now) {
                budget.spend(now, took);
                spent = spent + took;
                now += took;
            }
            now += Span::from_millis(1);
        }
        let most = Span::from_secs(2) + SAVED + took;
        assert!(spent <= most && spent + Span::from_millis(50) >= most, "{spent}");
    }
}

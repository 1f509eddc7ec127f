//! Counts of the last minutes.

use crate::permits::answers::tally::Tally;
use rampmeter_protocol::recent::Recent;
use rampmeter_protocol::status::{Counters, RejectionCause};
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// The length of a period. The current one counts together with the one before.
const PERIOD: Span = Span::from_secs(300);

/// The counts at the beginnings of the former and the current period.
#[derive(Clone, Debug)]
pub(crate) struct RecentCounts([(Time, Counters, Tally); 2]);

impl RecentCounts {
    pub(crate) fn new(now: Time) -> Self {
        let nothing = (now, Counters::default(), Tally::default());
        RecentCounts([nothing.clone(), nothing])
    }

    /// Begins another period if the current one is over.
    pub(crate) fn advance(&mut self, now: Time, counters: Counters, tally: &Tally) {
        let [_, present] = &self.0;
        if now.since(present.0) >= PERIOD {
            self.0 = [present.clone(), (now, counters, tally.clone())];
        }
    }

    /// Forgets the rejections under former limits, which need no attention any more.
    pub(crate) fn limits_changed(&mut self, counters: Counters) {
        self.0.iter_mut().for_each(|(_, then, _)| then.rejections = counters.rejections);
    }

    /// Returns the counts since the former period began.
    pub(crate) fn report(&self, now: Time, counters: Counters, tally: &Tally) -> Recent {
        let [(since, then, tally_then), _] = &self.0;
        let grown = |of: fn(&Counters) -> u64| of(&counters).saturating_sub(of(then));
        let seen = |of: fn(&Tally) -> u64| of(tally).saturating_sub(of(tally_then));
        let refusals = tally.refusals.iter().zip(tally_then.refusals.iter());
        let refusals = refusals.map(|((code, now), (_, then))| (code.as_str(), now - then));
        let rejections = RejectionCause::ALL.into_iter().map(|cause| {
            let [now, then] = [&counters, then].map(|counters| counters.rejections.by(cause));
            // A rejection counts as unknown until its cause is known.
            (cause.as_str(), now.saturating_sub(then))
        });
        Recent {
            over_ms: now.since(*since).millis(),
            granted: grown(|counters| counters.granted),
            settled: grown(|counters| counters.settled),
            returned: grown(|counters| counters.returned),
            refusals: positive(refusals),
            rejections: positive(rejections),
            store_losses: seen(|tally| tally.store_losses),
            undelivered: seen(|tally| tally.undelivered),
            lost_messages: seen(|tally| tally.lost_messages),
            foreign_replies: seen(|tally| tally.foreign_replies),
            clock_ahead_ms: tally.clock_ahead_secs * 1e3,
        }
    }
}

fn positive<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    counts.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::code::Code;

    #[test]
    fn what_was_counted_before_the_former_period_is_forgotten() {
        let at = |secs| Time::ORIGIN + Span::from_secs(secs);
        let (mut counters, mut tally, mut recent) = (Counters::default(), Tally::new(1), RecentCounts::new(at(0)));
        // When one more permit is granted, rejected and refused, and what is recent then.
        let table = [(10, 1, 10e3), (299, 2, 299e3), (301, 3, 301e3), (610, 1, 309e3), (2_000, 1, 1_390e3)];
        for (secs, granted, over_ms) in table {
            counters.granted += 1;
            counters.rejections.count(RejectionCause::Quota);
            tally.refusals.count(Code::QueueFull);
            recent.advance(at(secs), counters, &tally);
            let report = recent.report(at(secs), counters, &tally);
            let of = |name: &str, counts: &BTreeMap<String, u64>| counts.get(name).copied().unwrap_or(0);
            let (rejected, refused) = (of("quota", &report.rejections), of("queue_full", &report.refusals));
            assert_eq!(([report.granted, rejected, refused], report.over_ms), ([granted; 3], over_ms));
        }
    }

    #[test]
    fn rejections_under_former_limits_are_forgotten() {
        let (mut counters, tally, mut recent) = (Counters::default(), Tally::new(1), RecentCounts::new(Time::ORIGIN));
        for (changes, rejected) in [(false, 1), (false, 2), (true, 0), (false, 1)] {
            counters.granted += 1;
            counters.rejections.count(RejectionCause::LimitTooHigh);
            if changes {
                recent.limits_changed(counters);
            }
            let report = recent.report(Time::ORIGIN, counters, &tally);
            assert_eq!(report.rejections.values().sum::<u64>(), rejected);
        }
        assert_eq!(recent.report(Time::ORIGIN, counters, &tally).granted, 4);
    }
}

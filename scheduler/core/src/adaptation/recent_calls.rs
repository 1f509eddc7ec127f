//! The calls in flight, and the means of recent calls: time, and charge to each limit.

use crate::limits::StartKey;
use rampmeter_policy::Bill;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::spec::RETENTION;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A call unsettled for this long has probably ended, as not every worker settles.
const ENDED_AFTER: Span = Span::from_secs(60);
/// Beyond this many starts ahead, the earliest count as started. The set takes 3 MB.
const MAX_AHEAD: usize = 65_536;
/// Each later call reduces the weight of an earlier one by one part in this many.
const FADING_PART: f64 = 256.0;

/// The calls in flight, and means over calls that ended. A snapshot does not contain them. A call
/// in flight is any start, promised ones included, until its permit is forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentCalls {
    started: BTreeMap<u64, u64>,
    /// The starts that were ahead when the last call began.
    ahead: BTreeSet<StartKey>,
    served: Served,
}

/// Weighted sums over served calls. Later calls have more weight.
#[derive(Clone, Debug, Default)]
struct Served {
    calls: f64,
    secs: f64,
    amounts: BTreeMap<LimitId, f64>,
}

impl Served {
    fn add(&mut self, taken: Span, bill: &Bill) {
        let stays = 1.0 - 1.0 / FADING_PART;
        self.calls = self.calls * stays + 1.0;
        self.secs = self.secs * stays + taken.secs();
        self.amounts.values_mut().for_each(|amount| *amount *= stays);
        for (limit, amount) in bill.amounts() {
            *self.amounts.entry(limit).or_default() += amount.units();
        }
    }
}

impl RecentCalls {
    pub(crate) fn begin(&mut self, now: Time, key: StartKey) {
        match key.at <= now {
            true => *self.started.entry(second(key.at)).or_default() += 1,
            false => drop(self.ahead.insert(key)),
        }
        while self.ahead.first().is_some_and(|first| first.at <= now) || self.ahead.len() > MAX_AHEAD {
            let Some(begun) = self.ahead.pop_first() else { break };
            *self.started.entry(second(begun.at)).or_default() += 1;
        }
        assert!(self.ahead.len() <= MAX_AHEAD, "starts ahead are bounded");
        while let Some(oldest) = self.started.first_entry().filter(|oldest| *oldest.key() < second(now - RETENTION)) {
            oldest.remove();
        }
    }

    /// Ends a call. `served` has its charges, unless it was rejected.
    pub(crate) fn end(&mut self, now: Time, key: StartKey, served: Option<&Bill>) {
        self.withdraw(key);
        served.into_iter().for_each(|bill| self.served.add(now.since(key.at), bill));
    }

    pub(crate) fn withdraw(&mut self, key: StartKey) {
        if !self.ahead.remove(&key)
            && let Some(calls) = self.started.get_mut(&second(key.at))
        {
            *calls = calls.saturating_sub(1);
        }
    }

    /// Returns the mean time of a served call in seconds and its mean charge to `limit`. Calls
    /// without a charge count, too; `None` before the first one with a charge.
    pub(crate) fn means(&self, limit: LimitId) -> Option<(f64, f64)> {
        let Served { calls, secs, amounts } = &self.served;
        amounts.get(&limit).map(|amount| (secs / calls, amount / calls))
    }

    /// Forgets the means, because their charges are to former limits.
    pub(crate) fn change_limits(&mut self) {
        self.served = Served::default();
    }

    pub(crate) fn count(&self, now: Time) -> u64 {
        self.count_since(now - RETENTION, now)
    }

    /// Counts the calls besides that of `key` that have started by `now` and probably go on.
    pub(crate) fn count_young_beside(&self, now: Time, key: StartKey) -> u64 {
        let since = now - ENDED_AFTER;
        let counts = match self.ahead.contains(&key) {
            true => (since..=now).contains(&key.at),
            false => key.at >= since && self.started.contains_key(&second(key.at)),
        };
        self.count_since(since, now).saturating_sub(u64::from(counts))
    }

    /// Counts starts from the beginning of the second in which `since` lies.
    fn count_since(&self, since: Time, now: Time) -> u64 {
        let begun = self.ahead.range(StartKey { at: since, serial: 0 }..=StartKey { at: now, serial: u64::MAX });
        self.started.range(second(since)..).map(|(_, calls)| calls).sum::<u64>() + begun.count() as u64
    }
}

fn second(at: Time) -> u64 {
    at.nanos() / Span::from_secs(1).nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(secs: u64) -> StartKey {
        StartKey { at: Time::ORIGIN + Span::from_secs(secs), serial: secs }
    }

    #[test]
    fn a_call_is_in_flight_from_its_start_to_its_end() {
        let mut calls = RecentCalls::default();
        [0, 10, 50].into_iter().for_each(|secs| calls.begin(Time::ORIGIN, start(secs)));
        let counts = |calls: &RecentCalls, secs: u64| {
            (calls.count(start(secs).at), calls.count_young_beside(start(secs).at, start(7)))
        };
        assert_eq!([0, 10, 49, 61].map(|secs| counts(&calls, secs)), [(1, 1), (2, 2), (2, 2), (3, 2)]);
        calls.withdraw(start(10));
        assert_eq!(counts(&calls, 61), (2, 1));
        assert_eq!(counts(&calls, 301), (1, 0), "its permit is forgotten");
    }

    #[test]
    fn a_call_is_not_beside_itself() {
        let mut calls = RecentCalls::default();
        [5, 6, 400].into_iter().for_each(|secs| calls.begin(start(5).at, start(secs)));
        // Of a start that has passed, one that is due, one ahead, and one that is not known.
        let beside = [5, 6, 400, 7].map(|secs| calls.count_young_beside(start(8).at, start(secs)));
        assert_eq!(beside, [1, 1, 2, 2]);
        assert_eq!(calls.count_young_beside(start(66).at, start(5)), 1, "it has probably ended");
    }

    #[test]
    fn starts_ahead_that_have_passed_count_by_their_second() {
        let mut calls = RecentCalls::default();
        [5, 6, 400].into_iter().for_each(|secs| calls.begin(Time::ORIGIN, start(secs)));
        calls.begin(start(7).at, start(7));
        assert_eq!((calls.count(start(7).at), calls.ahead.len()), (3, 1));
        calls.withdraw(start(6));
        assert_eq!(calls.count(start(7).at), 2);
        calls.begin(start(307).at, start(307));
        assert_eq!((calls.count(start(307).at), calls.started.len()), (2, 2), "the call at 5 s is forgotten");
    }

    #[test]
    fn beyond_the_bound_the_next_starts_count_as_started() {
        let mut calls = RecentCalls::default();
        for secs in 1..=MAX_AHEAD as u64 + 2 {
            calls.begin(Time::ORIGIN, start(secs));
        }
        assert_eq!((calls.count(Time::ORIGIN), calls.ahead.len()), (2, MAX_AHEAD));
    }
}

//! Finds how many calls the upstream serves at once.
//!
//! Additive increase, multiplicative decrease, as TCP does with its window (Chiu and Jain, 1989; RFC 5681),
//! and `AIMDLimit` of Netflix's concurrency-limits with calls. A rejection says more than a lost packet: of
//! the calls in flight at the first rejection, the served ones had places. Their number is the new cap, but
//! at least half the old one. After calls have used the cap for a while, a higher one is tried. Each rejected
//! try doubles this time, so that few calls are rejected in the long run.
//!
//! A queue in the upstream delays every call, so the median time of some dozen calls is compared with the
//! least median, as in TCP Vegas (Brakmo and Peterson, 1995). Of n calls in flight, n × (1 − least / now) wait
//! there. If a lower number makes calls no faster, there is no queue: the calls or the upstream have changed.

use rampmeter_protocol::time::{Span, Time};

/// Served calls before a higher cap is tried, so that a refused try costs half a percent; the first needs half as many.
const CALLS_BEFORE_TRY: u64 = 200;
/// The largest number of such calls, reached after several refused tries.
const MOST_CALLS_BEFORE_TRY: u64 = 3200;
/// The fraction of a cap to use before a higher one is tried. Reserved starts leave some unused.
const USED: (u64, u64) = (3, 4);

/// The cap on calls in flight, once rejections or slow calls suggest one.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlightCap {
    pub(crate) cap: Option<u64>,
    cohort: Option<CallsAtRefusal>,
    /// Calls served since the cap changed, while calls used it.
    served: u64,
    /// How many such calls precede a try of a higher cap.
    calls_before_try: u64,
    /// By how much the next try is higher.
    step: u64,
    slowdown: SlowdownDetector,
    /// The cap before a queue was suspected.
    before: Option<Option<u64>>,
    /// The longest known duration of a call.
    pub(crate) longest: Span,
}

/// The calls that were in flight when the first of them was rejected.
#[derive(Clone, Copy, Debug)]
struct CallsAtRefusal {
    until: Time,
    /// How many of them have not been rejected so far.
    left: u64,
    /// The least cap that may follow from them.
    least: u64,
}

impl InFlightCap {
    pub(crate) fn restored(cap: u64, longest: Span) -> Self {
        InFlightCap { cap: Some(cap.max(1)), longest, ..InFlightCap::default() }
    }

    /// Notes that a call that started at `at` was rejected while `in_flight` others were in flight.
    pub(crate) fn note_refused(&mut self, now: Time, at: Time, in_flight: u64) {
        match &mut self.cohort {
            Some(cohort) if at <= cohort.until => cohort.left = cohort.left.saturating_sub(1),
            Some(_) | None => {
                let least = self.cap.map_or(1, |cap| cap / 2);
                self.cohort = Some(CallsAtRefusal { until: now, left: in_flight, least });
                if self.step > 1 {
                    // The last try of a higher cap was rejected.
                    self.calls_before_try = (self.calls_before_try() * 2).min(MOST_CALLS_BEFORE_TRY);
                }
                self.step = 1;
            }
        }
        let found = self.cohort.map_or(in_flight, |cohort| cohort.left.max(cohort.least)).max(1);
        self.cap = Some(self.cap.map_or(found, |cap| cap.min(found)));
        (self.served, self.before) = (0, None);
    }

    /// Notes that a call was served after `taken` while `in_flight` others were in flight.
    pub(crate) fn note_served(&mut self, taken: Span, in_flight: u64) {
        self.longest = self.longest.max(taken);
        match self.slowdown.note(taken, in_flight + 1) {
            Some(Finding::Queue(places)) if self.cap.is_none_or(|cap| places < cap) => {
                self.before = Some(self.cap);
                (self.cap, self.served) = (Some(places), 0);
            }
            Some(Finding::NoQueue) => self.cap = self.before.take().unwrap_or(self.cap),
            Some(Finding::Queue(_)) | None => {}
        }
        let is_used = |cap: &u64| (in_flight + 1).saturating_mul(USED.1) >= cap.saturating_mul(USED.0);
        let Some(cap) = self.cap.filter(is_used) else { return };
        self.served += 1;
        if self.served >= self.calls_before_try() {
            if self.step > 1 {
                // The last try was not rejected.
                self.calls_before_try = CALLS_BEFORE_TRY;
            }
            self.cap = Some(cap + self.step.max(1));
            self.step = (self.step.max(1) * 2).min(cap.max(2));
            self.served = 0;
        }
    }

    fn calls_before_try(&self) -> u64 {
        self.calls_before_try.max(CALLS_BEFORE_TRY / 2)
    }
}

/// The fewest and the most calls of a round.
const MIN_CALLS: u64 = 64;
const MAX_CALLS: u64 = 256;
/// Calls that may wait in the upstream, so that it never idles.
const QUEUE: u64 = 3;
/// Calls have to take this many times as long before a queue is suspected.
const SUSPICIOUS: u64 = 3;
/// With fewer calls in flight, nothing is suspected.
const MIN_IN_FLIGHT: u64 = 4;
/// Fewer calls in flight have to be faster by one part in this many.
const FASTER_PART: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The number of calls that can be in flight with a very short queue.
    Queue(u64),
    /// Fewer calls in flight were no faster.
    NoQueue,
}

/// The times of calls, in rounds of as many calls as are in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlowdownDetector {
    least: Option<Span>,
    round: Vec<Span>,
    most: u64,
    /// The time that fewer calls in flight must stay below, if a queue is suspected.
    expected: Option<Span>,
}

impl SlowdownDetector {
    /// Notes how long a call took, and how many calls were in flight.
    pub(crate) fn note(&mut self, taken: Span, in_flight: u64) -> Option<Finding> {
        self.most = self.most.max(in_flight);
        self.round.push(taken);
        if (self.round.len() as u64) < self.most.clamp(MIN_CALLS, MAX_CALLS) {
            return None;
        }
        let mut round = std::mem::take(&mut self.round);
        let middle = round.len() / 2;
        let median = *round.select_nth_unstable(middle).1;
        let most = std::mem::take(&mut self.most);
        self.judge(median, most)
    }

    fn judge(&mut self, now: Span, in_flight: u64) -> Option<Finding> {
        let least = self.least.map_or(now, |least| least.min(now));
        self.least = Some(least);
        if self.expected.take().is_some_and(|expected| now >= expected) {
            self.least = Some(now);
            return Some(Finding::NoQueue);
        }
        if now.nanos() <= least.nanos().saturating_mul(SUSPICIOUS) || in_flight < MIN_IN_FLIGHT {
            return None;
        }
        self.expected = Some(Span::from_nanos(now.nanos() - now.nanos() / FASTER_PART));
        let served_at_once = u128::from(in_flight) * u128::from(least.nanos()) / u128::from(now.nanos());
        Some(Finding::Queue(u64::try_from(served_at_once).unwrap_or(in_flight) + QUEUE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    const TAKEN: Span = Span::from_millis(100);

    #[test]
    fn a_refusal_gives_up_half_at_most() {
        let mut cap = InFlightCap::restored(8, TAKEN);
        for call in 0..8 {
            cap.note_refused(ms(100), ms(call), 7 - call);
        }
        assert_eq!(cap.cap, Some(4));
        cap.note_refused(ms(200), ms(150), 3);
        assert_eq!(cap.cap, Some(3));
    }

    #[test]
    fn a_used_cap_is_tried_higher_and_less_often_after_each_refusal() {
        let mut cap = InFlightCap::restored(10, TAKEN);
        let until_raised = |cap: &mut InFlightCap| {
            let before = cap.cap;
            (1..).find(|_| {
                cap.note_served(TAKEN, 9);
                cap.cap != before
            })
        };
        let mut waits = Vec::new();
        for round in 1..=3 {
            waits.extend(until_raised(&mut cap));
            cap.note_refused(ms(1000 * round), ms(1000 * round), 10);
            assert_eq!(cap.cap, Some(10));
        }
        assert_eq!(waits, [100, 200, 400]);
    }

    #[test]
    fn a_queue_in_the_upstream_is_a_cap_unless_fewer_calls_are_no_faster() {
        let mut cap = InFlightCap::default();
        let calls = |cap: &mut InFlightCap, millis, others: u64| {
            (0..=others.max(63)).for_each(|_| cap.note_served(Span::from_millis(millis), others));
        };
        calls(&mut cap, 100, 1);
        calls(&mut cap, 500, 49);
        assert_eq!(cap.cap, Some(13));
        calls(&mut cap, 500, 12);
        assert_eq!(cap.cap, None);
    }

    #[test]
    fn a_cap_that_is_not_used_stays() {
        let mut cap = InFlightCap::restored(10, TAKEN);
        (0..10_000).for_each(|_| cap.note_served(TAKEN, 3));
        assert_eq!(cap.cap, Some(10));
    }

    /// Rounds of calls, and what they show.
    type Rounds = (&'static [(u64, u64)], &'static [Finding]);

    /// What rounds of calls show: their times in milliseconds, and calls in flight.
    fn findings(rounds: &[(u64, u64)]) -> Vec<Finding> {
        let mut times = SlowdownDetector::default();
        let round = |(millis, most): &(u64, u64)| vec![(*millis, *most); (*most).max(MIN_CALLS) as usize];
        let calls = rounds.iter().flat_map(round);
        calls.filter_map(|(millis, most)| times.note(Span::from_millis(millis), most)).collect()
    }

    #[test]
    fn a_queue_in_the_upstream_shows_in_the_times_of_calls() {
        use Finding::{NoQueue, Queue};
        let table: [Rounds; 5] = [
            // More calls in flight take hardly longer.
            (&[(100, 2), (110, 50), (190, 200)], &[]),
            // Ten are served at a time, and forty wait.
            (&[(100, 2), (500, 50)], &[Queue(13)]),
            (&[(100, 2), (500, 50), (130, 13)], &[Queue(13)]),
            // Fewer calls are as slow: the upstream is slower.
            (&[(100, 2), (500, 50), (500, 13), (500, 50)], &[Queue(13), NoQueue]),
            (&[(100, 2), (500, 3)], &[]),
        ];
        for (rounds, expected) in table {
            assert_eq!(findings(rounds), expected, "{rounds:?}");
        }
    }

    #[test]
    fn a_round_has_as_many_calls_as_are_in_flight_within_bounds() {
        for (in_flight, expected) in [(1, MIN_CALLS), (100, 100), (1000, MAX_CALLS)] {
            let mut times = SlowdownDetector::default();
            (0..expected).for_each(|_| _ = times.note(Span::from_millis(100), in_flight));
            assert!(times.round.is_empty(), "{in_flight} calls in flight");
            times.note(Span::from_millis(100), in_flight);
            assert_eq!(times.round.len(), 1, "{in_flight} calls in flight");
        }
    }

    #[test]
    fn a_few_fast_calls_make_the_others_no_slower() {
        let mut times = SlowdownDetector::default();
        let taken = |call: u64| Span::from_millis(if call.is_multiple_of(10) { 5 } else { 200 });
        assert_eq!((0..1000).filter_map(|call| times.note(taken(call), 50)).count(), 0);
    }
}

//! Detects whether calls take longer when more of them are in flight.
//!
//! A queue in the upstream delays every call. So the median time of some dozen calls is compared
//! with the least median, as TCP Vegas compares round trips (Brakmo and Peterson, 1995). Of n calls
//! in flight, n × (1 − least / now) wait in that queue. If a lower number of calls
//! in flight does not shorten them, there is no queue: the calls or the upstream have changed.

use rampmeter_protocol::time::Span;

/// The fewest and the most calls of a round.
const MIN_CALLS: u64 = 64;
const MAX_CALLS: u64 = 256;
/// Calls that may wait in the upstream, so that the upstream never idles.
const QUEUE: u64 = 3;
/// Calls have to take this many times as long before a queue is suspected.
const SUSPICIOUS: u64 = 3;
/// With fewer calls in flight, nothing is suspected.
const MIN_IN_FLIGHT: u64 = 4;
/// Fewer calls in flight have to be faster by one part in this many.
const FASTER_PART: u64 = 8;

/// The result of a round of calls.
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
    /// The most calls in flight in this round.
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

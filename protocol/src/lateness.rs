//! How late an answer is, by the clock of the scheduler that gave it.
//!
//! Clocks are not compared, lengths are: an answer takes the *one-way delay* from its stamp to its receipt, which both clocks
//! shift by the same unknown length. The least one-way delay of late is the *base delay*; what an answer takes beyond it, it is
//! late (compare RFC 6817, LEDBAT).

use crate::time::{NANOS_PER_MILLI, Span, Time};

/// How much later than promised a call may start: the margin of the scheduler pays for as much.
pub const LATENESS: Span = Span::from_millis(50);
/// Stamps are whole milliseconds: an answer may seem to be later by so much than it is, and no call starts before its time.
const STAMP: Span = Span::from_millis(1);
/// A base delay is forgotten after one to two of these: in so long, clocks that are kept by NTP part by up to 1 / 2000 of it.
const MEMORY: Span = Span::from_secs(30);

/// One answer of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Stamped {
    /// When the request was sent, as late as that is certain.
    pub asked: Time,
    /// When the answer came.
    pub received: Time,
    /// The answer's stamp; older schedulers write none.
    pub at_ms: Option<u64>,
    /// The answer's epoch: each leader's clock has an origin of its own.
    pub epoch: u64,
}

/// From a stamp to its receipt, on two clocks: only its changes mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OneWayDelay(i128);

/// The base delay of one resource's answers.
///
/// An answer that came within [`LATENESS`] of its request is in time whatever the clocks say, and tells the base delay. Until one
/// has, no answer that took longer is known to be in time.
///
/// ```
/// use rampmeter_protocol::lateness::{BaseDelay, Stamped};
/// use rampmeter_protocol::time::{Span, Time};
///
/// let at = |ms| Time::ORIGIN + Span::from_millis(ms);
/// let mut base = BaseDelay::default();
/// let quick = Stamped { asked: at(0), received: at(2), at_ms: Some(7001), epoch: 1 };
/// assert_eq!(base.start(quick, Span::from_secs(5), None), Ok(Span::from_secs(5)));
/// // Sent three seconds before it came: of five seconds' delay two are left, and what was to start at once is not begun.
/// let late = Stamped { asked: at(10), received: at(4001), at_ms: Some(8000), epoch: 1 };
/// assert_eq!(base.start(late, Span::from_secs(5), None), Ok(Span::from_millis(2001)));
/// assert!(base.start(late, Span::ZERO, None).is_err());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BaseDelay {
    epoch: u64,
    /// Since when the least is of the present time.
    since: Time,
    least: Option<OneWayDelay>,
    /// The least of the time before.
    before: Option<OneWayDelay>,
}

impl BaseDelay {
    /// How long after its receipt the call of a permit is to start, of which the answer says that it is `delay`.
    ///
    /// # Errors
    /// If it would start late, or may. The call must not be made. The same request asked for anew passes what this returns as
    /// `before`: as late twice in a row, the way has become so long, and calls that are all late by as much keep their distances.
    pub fn start(&mut self, answer: Stamped, delay: Span, before: Option<OneWayDelay>) -> Result<Span, OneWayDelay> {
        let Some(way) = answer.one_way() else { return Ok(delay) };
        match self.hear(answer) {
            Some(late) if late.saturating_sub(delay) <= LATENESS => {
                Ok(delay.saturating_sub(late.saturating_sub(STAMP)))
            }
            Some(_) | None if before.is_some_and(|before| way.is_like(before)) => {
                (self.least, self.before) = (Some(way), None);
                Ok(delay)
            }
            Some(_) | None => Err(way),
        }
    }

    /// Takes note of an answer; how late it is, where that is known.
    pub fn hear(&mut self, answer: Stamped) -> Option<Span> {
        let way = answer.one_way()?;
        self.turn(answer.epoch, answer.received);
        let late = self.late(way, answer.received.since(answer.asked));
        if late.is_some_and(|late| late <= LATENESS) {
            self.least = Some(self.least.map_or(way, |least| least.min(way)));
        }
        late
    }

    /// Forgets what is of another leader, or too old.
    fn turn(&mut self, epoch: u64, now: Time) {
        let age = now.since(self.since);
        if epoch != self.epoch || age > MEMORY + MEMORY {
            *self = BaseDelay { epoch, since: now, least: None, before: None };
        } else if age > MEMORY {
            *self = BaseDelay { epoch, since: now, least: None, before: self.least };
        }
    }

    /// No later than its whole round trip took, whatever the base delay says.
    fn late(&self, way: OneWayDelay, round_trip: Span) -> Option<Span> {
        let base = self.least.into_iter().chain(self.before).min();
        match base {
            Some(base) => Some(way.beyond(base).min(round_trip)),
            None => (round_trip <= LATENESS).then_some(Span::ZERO),
        }
    }
}

impl Stamped {
    fn one_way(self) -> Option<OneWayDelay> {
        let stamp = i128::from(self.at_ms?) * i128::from(NANOS_PER_MILLI);
        Some(OneWayDelay(i128::from(self.received.nanos()) - stamp))
    }
}

impl OneWayDelay {
    fn beyond(self, base: OneWayDelay) -> Span {
        Span::from_nanos(u64::try_from((self.0 - base.0).max(0)).unwrap_or(u64::MAX))
    }

    fn is_like(self, other: OneWayDelay) -> bool {
        self.beyond(other).max(other.beyond(self)) <= LATENESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Span::from_millis(ms)
    }

    /// Answers as (asked, stamp, received, delay), all in milliseconds, of a scheduler whose clock is 1 000 s ahead; and how long
    /// after the receipt each call starts, if it may.
    fn check(answers: &[(u64, u64, u64, u64)], expected: &[Option<u64>]) {
        let (mut base, mut before) = (BaseDelay::default(), None);
        let starts = answers.iter().map(|(asked, stamp, received, delay)| {
            let (asked, received, at_ms) = (at(*asked), at(*received), Some(1_000_000 + stamp));
            let start = base.start(Stamped { asked, received, at_ms, epoch: 1 }, Span::from_millis(*delay), before);
            before = start.err();
            start.ok()
        });
        let expected: Vec<Option<Span>> = expected.iter().map(|start| start.map(Span::from_millis)).collect();
        assert_eq!(starts.collect::<Vec<_>>(), expected, "{answers:?}");
    }

    #[test]
    fn an_answer_is_late_by_what_it_took_beyond_the_base_delay() {
        let quick = (0, 1, 2, 0);
        check(&[quick, (10, 60, 61, 0)], &[Some(0), Some(0)]);
        // What is a little late has its delay shortened by that.
        check(&[quick, (10, 20, 61, 100)], &[Some(0), Some(61)]);
        check(&[quick, (10, 20, 71, 0), (10, 20, 72, 0)], &[Some(0), Some(0), None]);
        // Late by no more than its delay, it starts in time.
        check(&[quick, (10, 20, 3021, 3000), (10, 20, 3072, 3000)], &[Some(0), Some(1), None]);
        // A long wait in line is not lateness.
        check(&[quick, (10, 30_000, 30_002, 0)], &[Some(0), Some(0)]);
    }

    #[test]
    fn what_took_long_is_not_known_to_be_in_time_unless_the_way_is_so_long() {
        check(&[(0, 500, 1000, 0), (1000, 1001, 1002, 0)], &[None, Some(0)]);
        // A way by satellite: the second answer takes as long as the first.
        check(&[(0, 300, 600, 0), (600, 900, 1210, 0), (1300, 1600, 1905, 0)], &[None, Some(0), Some(0)]);
        // Two answers that were held up take as long by chance only.
        check(&[(0, 300, 3000, 0), (3000, 4000, 5000, 0)], &[None, None]);
        // The way becomes longer.
        let longer = [(0, 1, 2, 0), (10, 90, 170, 0), (170, 250, 335, 0), (400, 480, 565, 0)];
        check(&longer, &[Some(0), None, Some(0), Some(0)]);
    }

    #[test]
    fn clocks_may_drift_apart_slowly() {
        // Half a thousandth, for ten minutes; all but the first wait in line.
        let drifting = (0..60).map(|ten| (0, 10_000 * ten, 10_000 * ten + 5 * ten + 1, 0));
        let drifting: Vec<_> = drifting.collect();
        check(&drifting, &[Some(0); 60]);
    }

    #[test]
    fn another_leader_has_another_clock() {
        let answer = |received, at_ms, epoch| Stamped { asked: at(0), received: at(received), at_ms, epoch };
        let mut base = BaseDelay::default();
        assert_eq!(base.hear(answer(1, Some(0), 1)), Some(Span::ZERO));
        assert_eq!(base.hear(answer(1000, Some(7), 2)), None, "and nothing is known of it");
        assert_eq!(
            base.start(answer(1000, None, 2), Span::ZERO, None),
            Ok(Span::ZERO),
            "without a stamp it is believed"
        );
        assert_eq!(base.hear(answer(1000, Some(u64::MAX), 3)), None);
    }
}

//! The lateness of an answer, by the clock of the scheduler that wrote it.
//!
//! Only durations are compared, never clocks. The *one-way delay* of an answer is the time from its stamp to its
//! receipt, which the clocks shift by the same unknown amount. The *base delay* is the smallest one-way delay of the
//! last 30 to 60 seconds. An answer's lateness is its one-way delay minus the base delay (compare RFC 6817, LEDBAT).
//!
//! No clock drift has to be known. A bound from round trips alone would call every answer late
//! whose path takes over 50 ms. If two successive answers are equally late, the path is long.

use crate::epoch::Epoch;
use crate::time::{NANOS_PER_MILLI, Span, Time};

/// How much later than promised a call may start. The scheduler's margin covers as much.
pub const LATENESS: Span = Span::from_millis(50);
/// Resolution of stamps. Measured lateness is reduced by as much, so that no call starts too early.
const STAMP: Span = Span::from_millis(1);
/// A base delay lasts one to two of these, in which clocks under NTP drift apart by up to 1/2000.
const MEMORY: Span = Span::from_secs(30);

/// The times of one answer.
#[derive(Clone, Copy, Debug)]
pub struct Stamped {
    /// A time no later than the sending of the request.
    pub asked: Time,
    /// When the answer was received.
    pub received: Time,
    /// The answer's stamp. Older schedulers write none.
    pub at_ms: Option<u64>,
    /// The answer's epoch; each leader's clock has its own origin.
    pub epoch: Epoch,
}

/// The time from a stamp to its receipt, measured on two clocks. Only differences are meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OneWayDelay(i128);

/// The start of a call whose answer came in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelyStart {
    /// The time from the receipt of the answer to the start.
    pub after: Span,
    /// How much later the start is than the answer said; absent if the answer has no stamp.
    pub late: Option<Span>,
}

/// The base delay of one resource's answers. One within [`LATENESS`] of its request is in time whatever the clocks say,
/// and sets the base delay. Before the first such answer, no slower one is known to be in time.
///
/// ```
/// use rampmeter_protocol::epoch::Epoch;
/// use rampmeter_protocol::lateness::{BaseDelay, Stamped};
/// use rampmeter_protocol::time::{Span, Time};
///
/// let at = |ms| Time::ORIGIN + Span::from_millis(ms);
/// let mut base = BaseDelay::default();
/// let quick = Stamped { asked: at(0), received: at(2), at_ms: Some(7001), epoch: Epoch::FIRST };
/// assert_eq!(base.start(quick, Span::from_secs(5), None).map(|start| start.after), Ok(Span::from_secs(5)));
/// // Three seconds late: two of five seconds' delay are left, and an immediate start is missed.
/// let late = Stamped { asked: at(10), received: at(4001), at_ms: Some(8000), epoch: Epoch::FIRST };
/// assert_eq!(base.start(late, Span::from_secs(5), None).map(|start| start.after), Ok(Span::from_millis(2001)));
/// assert!(base.start(late, Span::ZERO, None).is_err());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BaseDelay {
    epoch: Epoch,
    since: Time,
    least: Option<OneWayDelay>,
    /// The least one-way delay of the previous period.
    before: Option<OneWayDelay>,
}

impl BaseDelay {
    /// Returns when the call starts. `delay` is the delay in the answer.
    ///
    /// # Errors
    /// If the call might start too late and must not be made. The caller asks again with the returned delay as
    /// `before`. If that answer is as late, the path is that long: all calls are late alike and keep their distances.
    pub fn start(
        &mut self,
        answer: Stamped,
        delay: Span,
        before: Option<OneWayDelay>,
    ) -> Result<TimelyStart, OneWayDelay> {
        let Some(way) = answer.one_way() else { return Ok(TimelyStart { after: delay, late: None }) };
        match self.observe(answer) {
            Some(late) if late.saturating_sub(delay) <= LATENESS => {
                let late = late.saturating_sub(STAMP);
                Ok(TimelyStart { after: delay.saturating_sub(late), late: Some(late.saturating_sub(delay)) })
            }
            Some(_) | None if before.is_some_and(|before| way.is_like(before)) => {
                (self.least, self.before) = (Some(way), None);
                Ok(TimelyStart { after: delay, late: Some(Span::ZERO) })
            }
            Some(_) | None => Err(way),
        }
    }

    /// Notes an answer, and returns its lateness if known.
    pub fn observe(&mut self, answer: Stamped) -> Option<Span> {
        let way = answer.one_way()?;
        self.forget_old(answer.epoch, answer.received);
        let late = self.lateness(way, answer.received.since(answer.asked));
        if late.is_some_and(|late| late <= LATENESS) {
            self.least = Some(self.least.map_or(way, |least| least.min(way)));
        }
        late
    }

    fn forget_old(&mut self, epoch: Epoch, now: Time) {
        let age = now.since(self.since);
        if epoch != self.epoch || age > MEMORY + MEMORY {
            *self = BaseDelay { epoch, since: now, least: None, before: None };
        } else if age > MEMORY {
            *self = BaseDelay { epoch, since: now, least: None, before: self.least };
        }
    }

    /// The lateness, which is at most the whole round trip whatever the base delay says.
    fn lateness(&self, way: OneWayDelay, round_trip: Span) -> Option<Span> {
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

    /// Each answer is (asked, stamp, received, delay) in milliseconds, from a scheduler whose clock
    /// is 1 000 s ahead. Expected is how long after the receipt each call starts, if it may.
    fn check(answers: &[(u64, u64, u64, u64)], expected: &[Option<u64>]) {
        let (mut base, mut before) = (BaseDelay::default(), None);
        let starts = answers.iter().map(|(asked, stamp, received, delay)| {
            let (asked, received, at_ms) = (at(*asked), at(*received), Some(1_000_000 + stamp));
            let start =
                base.start(Stamped { asked, received, at_ms, epoch: Epoch::FIRST }, Span::from_millis(*delay), before);
            before = start.err();
            start.ok().map(|start| start.after)
        });
        let expected: Vec<Option<Span>> = expected.iter().map(|start| start.map(Span::from_millis)).collect();
        assert_eq!(starts.collect::<Vec<_>>(), expected, "{answers:?}");
    }

    #[test]
    fn an_answer_is_late_by_what_it_took_beyond_the_base_delay() {
        let quick = (0, 1, 2, 0);
        check(&[quick, (10, 60, 61, 0)], &[Some(0), Some(0)]);
        // A slightly late answer shortens the delay by its lateness.
        check(&[quick, (10, 20, 61, 100)], &[Some(0), Some(61)]);
        check(&[quick, (10, 20, 71, 0), (10, 20, 72, 0)], &[Some(0), Some(0), None]);
        // An answer that is late by no more than its delay starts in time.
        check(&[quick, (10, 20, 3021, 3000), (10, 20, 3072, 3000)], &[Some(0), Some(1), None]);
        // A long wait in the queue is no lateness.
        check(&[quick, (10, 30_000, 30_002, 0)], &[Some(0), Some(0)]);
    }

    #[test]
    fn a_slow_answer_counts_as_late_until_a_second_one_shows_a_long_path() {
        check(&[(0, 500, 1000, 0), (1000, 1001, 1002, 0)], &[None, Some(0)]);
        // A satellite link: the second answer takes as long as the first.
        check(&[(0, 300, 600, 0), (600, 900, 1210, 0), (1300, 1600, 1905, 0)], &[None, Some(0), Some(0)]);
        // Two stalled answers take equally long only by chance.
        check(&[(0, 300, 3000, 0), (3000, 4000, 5000, 0)], &[None, None]);
        // The way becomes longer.
        let longer = [(0, 1, 2, 0), (10, 90, 170, 0), (170, 250, 335, 0), (400, 480, 565, 0)];
        check(&longer, &[Some(0), None, Some(0), Some(0)]);
    }

    #[test]
    fn clocks_may_drift_apart_slowly() {
        // The drift is 1/2000 for ten minutes. All requests but the first wait in the queue.
        let drifting = (0..60).map(|ten| (0, 10_000 * ten, 10_000 * ten + 5 * ten + 1, 0));
        let drifting: Vec<_> = drifting.collect();
        check(&drifting, &[Some(0); 60]);
    }

    #[test]
    fn another_leader_has_another_clock() {
        let answer =
            |received, at_ms, epoch| Stamped { asked: at(0), received: at(received), at_ms, epoch: Epoch::new(epoch) };
        let mut base = BaseDelay::default();
        assert_eq!(base.observe(answer(1, Some(0), 1)), Some(Span::ZERO));
        assert_eq!(base.observe(answer(1000, Some(7), 2)), None, "the new leader's base delay is not known");
        let believed = Ok(TimelyStart { after: Span::ZERO, late: None });
        assert_eq!(
            base.start(answer(1000, None, 2), Span::ZERO, None),
            believed,
            "an answer without a stamp counts as in time"
        );
        assert_eq!(base.observe(answer(1000, Some(u64::MAX), 3)), None);
    }
}

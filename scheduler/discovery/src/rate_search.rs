//! Finds the rate that an upstream serves, if no header states it.
//!
//! Additive increase and multiplicative decrease (Chiu and Jain, 1989), with the slow start of TCP (RFC 5681) and the
//! growth of CUBIC (RFC 9438). After a rejection, the rate approaches the rejected one, stays near it for a while (the
//! plateau), then exceeds it. A longer pause means a longer plateau. An unused rate does not grow.

use rampmeter_protocol::time::{Span, Time};
use std::collections::VecDeque;

/// The first rate, in calls per second.
pub(crate) const FIRST_RATE: f64 = 2.0;
const LOWEST_RATE: f64 = 0.01;
const HIGHEST_RATE: f64 = 65_536.0;
const SECOND: u64 = 1_000_000_000;

const REVIEW: Span = Span::from_millis(250);
/// Growth in each review before the first rejection: the rate doubles in four seconds.
const GROWTH: f64 = 1.0443;
/// Above this rate it grows more slowly, because a rejection there costs more calls.
const SLOWER_ABOVE: f64 = 32.0;
/// The slower growth in each review: the rate doubles in twelve seconds.
const SLOWER_GROWTH: f64 = 1.0145;
const LEFT_IN_SLOW_START: f64 = 0.5;
const LEFT_AFTER_EARLY_REFUSAL: f64 = 0.8;
const LEFT_AFTER_LATER_REFUSAL: f64 = 0.95;
/// A rejection is early if calls used the rate for less than the plateau divided by this.
const EARLY_PART: u64 = 4;
/// A longer pause teaches no more, and no single response pauses a resource's calls for longer.
const LONGEST_PAUSE: Span = Span::from_secs(60);
/// Shortest plateau. It also lasts at least this many times the pause that the upstream asked for.
const PLATEAU: Span = Span::from_secs(30);
const PAUSES: u64 = 10;
/// Least calls of a plateau, because each return to the rejected rate costs a rejected call.
const CALLS: f64 = 200.0;
/// After a rejection with a long pause, the rate is at most this part of that served before, over about as long a time.
const SUSTAINED: f64 = 0.95;
const SECONDS: usize = 64;
/// The rate counts as used if at least this fraction of it is served.
const USED: f64 = 0.7;

#[derive(Clone, Debug)]
pub(crate) struct RateSearch {
    pub(crate) rate: f64,
    /// The rates at the last rejection and right after it; `None` in slow start.
    refused: Option<(f64, f64)>,
    /// How long calls have to use the rate until the rejected rate is reached again.
    plateau: Span,
    /// How long calls have used the rate since the last rejection.
    grown: Span,
    last_refusal: Option<Time>,
    reviewed: Time,
    served: ServedCalls,
}

impl RateSearch {
    pub(crate) fn new(now: Time) -> Self {
        RateSearch {
            rate: FIRST_RATE,
            refused: None,
            plateau: PLATEAU,
            grown: Span::ZERO,
            last_refusal: None,
            reviewed: now,
            served: ServedCalls { seconds: VecDeque::new(), since: now },
        }
    }

    /// Restores a predecessor's rate, which was rejected before.
    pub(crate) fn restored(now: Time, rate: f64) -> Self {
        let rate = rate.clamp(LOWEST_RATE, HIGHEST_RATE);
        RateSearch {
            rate,
            refused: Some((rate / LEFT_AFTER_LATER_REFUSAL, rate)),
            last_refusal: Some(now),
            ..RateSearch::new(now)
        }
    }

    pub(crate) fn note_served(&mut self, now: Time) {
        self.served.note(now);
    }

    /// Notes a rejection of a call started at `at`, and the pause that the upstream asks for.
    pub(crate) fn note_refused(&mut self, now: Time, at: Time, pause: Span) {
        let pause = pause.min(LONGEST_PAUSE);
        // A call that started before the last rejection teaches nothing new.
        if self.last_refusal.is_some_and(|last| at <= last) {
            return;
        }
        let factor = match self.refused {
            None => LEFT_IN_SLOW_START,
            Some(_) if self.grown < Span::from_nanos(self.plateau.nanos() / EARLY_PART) => LEFT_AFTER_EARLY_REFUSAL,
            Some(_) => LEFT_AFTER_LATER_REFUSAL,
        };
        let window = pause.clamp(Span::from_secs(1), Span::from_secs(SECONDS as u64 - 4));
        let sustained = self.served.rate(now, window) * SUSTAINED;
        // A pause above one second shows that a window of about its length was used up, if calls used the rate in it.
        let most_in_a_second = self.served.past(now, window).1.max().unwrap_or(0);
        let is_used = f64::from(most_in_a_second) >= self.rate * USED;
        let (most, left) = match window > Span::from_secs(1) && sustained > 0.0 && is_used {
            true => (self.rate.min(sustained / SUSTAINED), (self.rate * factor).min(sustained)),
            false => (self.rate, self.rate * factor),
        };
        self.rate = left.max(LOWEST_RATE);
        self.refused = Some((most.max(self.rate), self.rate));
        let calls = Span::from_nanos((CALLS / self.rate * SECOND as f64) as u64);
        self.plateau = PLATEAU.max(calls).max(Span::from_nanos(pause.nanos().saturating_mul(PAUSES)));
        (self.grown, self.last_refusal, self.reviewed) = (Span::ZERO, Some(now), now);
    }

    pub(crate) fn next_review(&self) -> Time {
        self.reviewed + REVIEW
    }

    /// Lets the rate grow, if calls have used it.
    pub(crate) fn review(&mut self, now: Time) {
        if now < self.next_review() {
            return;
        }
        let passed = now.since(self.reviewed).min(REVIEW + REVIEW);
        self.reviewed = now;
        // At low rates, calls are many seconds apart.
        let window = Span::from_nanos((3.0 * SECOND as f64 / self.rate.clamp(0.1, 1.5)) as u64);
        if self.served.rate(now, window) < self.rate * USED {
            return;
        }
        self.grown = self.grown + passed;
        let grown = match self.refused {
            None => self.rate * if self.rate < SLOWER_ABOVE { GROWTH } else { SLOWER_GROWTH },
            Some((refused, after)) => cubic(refused, after, self.grown.secs() / self.plateau.secs()),
        };
        self.rate = grown.clamp(self.rate, HIGHEST_RATE);
    }
}

/// The rate after calls have used it for this many plateaus since the rejection.
fn cubic(refused: f64, after: f64, plateaus: f64) -> f64 {
    let past = plateaus - 1.0;
    let beyond = past * past * past;
    let height = if plateaus < 1.0 { refused - after } else { refused / 10.0 };
    refused + height * beyond
}

#[derive(Clone, Debug)]
struct ServedCalls {
    /// The last seconds with calls, and how many each had.
    seconds: VecDeque<(u64, u32)>,
    since: Time,
}

impl ServedCalls {
    fn note(&mut self, now: Time) {
        let second = now.nanos() / SECOND;
        match self.seconds.back_mut() {
            Some((last, calls)) if *last >= second => *calls += 1,
            Some(_) | None => self.seconds.push_back((second, 1)),
        }
        self.seconds.pop_front_if(|(first, _)| *first + SECONDS as u64 <= second);
    }

    /// The calls served per second, in the whole past seconds that make up about `window`.
    fn rate(&self, now: Time, window: Span) -> f64 {
        let (seconds, calls) = self.past(now, window);
        calls.map(f64::from).sum::<f64>() / seconds as f64
    }

    /// The number of known whole past seconds that make up about `window`, and the calls of each.
    fn past(&self, now: Time, window: Span) -> (u64, impl Iterator<Item = u32>) {
        let asked = (window.secs().ceil() as u64).clamp(1, SECONDS as u64 - 1);
        let seconds = asked.min(now.since(self.since).secs() as u64).max(1);
        let second = now.nanos() / SECOND;
        let past = second.saturating_sub(seconds)..second;
        (seconds, self.seconds.iter().filter(move |(at, _)| past.contains(at)).map(|(_, calls)| *calls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_rate_does_not_grow() {
        let mut search = RateSearch::new(Time::ORIGIN);
        for quarter in 1..1000 {
            search.review(Time::ORIGIN + Span::from_millis(250 * quarter));
        }
        assert_eq!(search.rate, FIRST_RATE);
    }

    #[test]
    fn calls_of_one_round_trip_teach_once() {
        let mut search = RateSearch::new(Time::ORIGIN);
        let now = Time::ORIGIN + Span::from_secs(1);
        (0..50).for_each(|call| search.note_refused(now, Time::ORIGIN + Span::from_millis(900 + call), Span::ZERO));
        assert_eq!(search.rate, FIRST_RATE * LEFT_IN_SLOW_START);
    }

    /// The rate an hour after a refusal with this pause. Before it, calls had used a rate of a
    /// hundred for a minute, and hardly any of it for another one.
    fn an_hour_after(pause: Span) -> (f64, f64) {
        let mut search = RateSearch { rate: 100.0, refused: Some((100.0, 95.0)), ..RateSearch::new(Time::ORIGIN) };
        let at = |millis: u64| Time::ORIGIN + Span::from_millis(millis);
        (0..6000).for_each(|call| search.note_served(at(10 * call)));
        (60..120).step_by(10).for_each(|second| search.note_served(at(1000 * second)));
        search.note_refused(at(120_000), at(119_900), pause);
        let before = search.rate;
        for quarter in 0..14_400 {
            let now = at(120_000 + 250 * quarter);
            let calls = (search.rate / 4.0).ceil() as u32;
            (0..calls).for_each(|_| search.note_served(now));
            search.review(now);
        }
        (before, search.rate)
    }

    #[test]
    fn a_long_pause_after_a_quiet_minute_throttles_for_no_hours() {
        for pause in [60, 3600, 36_000] {
            let (before, after) = an_hour_after(Span::from_secs(pause));
            assert!(before >= 50.0 && after >= 100.0, "{pause} s: {before}, {after}");
        }
    }
}

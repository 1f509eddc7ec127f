//! Decides when to ask a provider which question. Time and jitter are arguments.

use rampmeter_protocol::time::{Span, Time};

/// The pause after the first failure. It doubles with every further failure.
const FIRST_PAUSE: Span = Span::from_secs(1);
/// The longest pause: recovery is noticed within a minute, and no failing provider is flooded.
const LONGEST_PAUSE: Span = Span::from_secs(60);

/// A question to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The limits.
    Contract,
    /// The levels.
    Levels,
}

/// When each question is due: at the start, then at its interval. After a failure all wait, to spare the provider.
///
/// ```
/// use rampmeter_protocol::{time::{Span, Time}};
/// use rampmeter_account::poll_schedule::{PollSchedule, Topic};
///
/// let mut schedule = PollSchedule::new(Span::from_secs(300), None, Time::ORIGIN);
/// assert_eq!(schedule.next(), (Time::ORIGIN, Topic::Contract));
/// schedule.failed(Time::ORIGIN, Topic::Contract, 1.0);
/// assert_eq!(schedule.next(), (Time::ORIGIN + Span::from_secs(1), Topic::Contract));
/// schedule.succeeded(Time::ORIGIN + Span::from_secs(1), Topic::Contract);
/// assert_eq!(schedule.next(), (Time::ORIGIN + Span::from_secs(301), Topic::Contract));
/// ```
#[derive(Clone, Debug)]
pub struct PollSchedule {
    contract: Item,
    levels: Option<Item>,
    /// Failures since all questions were last answered.
    failures: u32,
    /// No question is asked before this time.
    quiet_until: Time,
}

#[derive(Clone, Debug)]
struct Item {
    due: Time,
    every: Span,
    failing: bool,
}

impl PollSchedule {
    /// Creates a schedule with all questions due at `now`; levels only if they have an interval.
    #[must_use]
    pub fn new(contract_every: Span, levels_every: Option<Span>, now: Time) -> Self {
        let item = |every| Item { due: now, every, failing: false };
        PollSchedule { contract: item(contract_every), levels: levels_every.map(item), failures: 0, quiet_until: now }
    }

    /// Returns the next question and its time. If both are due at once, the contract comes first.
    #[must_use]
    pub fn next(&self) -> (Time, Topic) {
        let contract = self.contract.due.max(self.quiet_until);
        match self.levels.as_ref().map(|levels| levels.due.max(self.quiet_until)) {
            Some(levels) if levels < contract => (levels, Topic::Levels),
            Some(_) | None => (contract, Topic::Contract),
        }
    }

    /// Records that `topic` was answered at `now`.
    pub fn succeeded(&mut self, now: Time, topic: Topic) {
        let item = self.item(topic);
        item.failing = false;
        item.due = now + item.every;
        if self.is_well() {
            self.failures = 0;
        }
    }

    /// Records that `topic` was not answered. `jitter`, from 0.5 to 1, scales the pause, so that resources retry apart.
    pub fn failed(&mut self, now: Time, topic: Topic, jitter: f64) {
        let doubled = FIRST_PAUSE.nanos() << self.failures.min(16);
        let pause = doubled.min(LONGEST_PAUSE.nanos()) as f64 * jitter.clamp(0.5, 1.0);
        self.failures = self.failures.saturating_add(1);
        self.quiet_until = now + Span::from_nanos(pause as u64);
        let quiet_until = self.quiet_until;
        let item = self.item(topic);
        item.failing = true;
        item.due = quiet_until;
    }

    /// Returns whether the last try of every question was answered.
    #[must_use]
    pub fn is_well(&self) -> bool {
        !self.contract.failing && !self.levels.as_ref().is_some_and(|levels| levels.failing)
    }

    fn item(&mut self, topic: Topic) -> &mut Item {
        match (topic, &mut self.levels) {
            (Topic::Levels, Some(levels)) => levels,
            (Topic::Levels, None) | (Topic::Contract, _) => &mut self.contract,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time::ORIGIN + Span::from_secs(secs)
    }

    fn schedule(levels_every: Option<u64>) -> PollSchedule {
        PollSchedule::new(Span::from_secs(300), levels_every.map(Span::from_secs), at(0))
    }

    #[test]
    fn each_question_has_its_own_pace() {
        let mut schedule = schedule(Some(100));
        let expected = [
            (0, Topic::Contract),
            (0, Topic::Levels),
            (100, Topic::Levels),
            (200, Topic::Levels),
            (300, Topic::Contract),
            (300, Topic::Levels),
            (400, Topic::Levels),
        ];
        for (secs, topic) in expected {
            assert_eq!(schedule.next(), (at(secs), topic));
            schedule.succeeded(at(secs), topic);
        }
    }

    #[test]
    fn failures_double_the_pause_up_to_a_minute() {
        let mut schedule = schedule(None);
        let mut now = 0;
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            schedule.failed(at(now), Topic::Contract, 1.0);
            now += pause;
            assert_eq!(schedule.next(), (at(now), Topic::Contract));
        }
        schedule.succeeded(at(now), Topic::Contract);
        schedule.failed(at(now), Topic::Contract, 0.0);
        assert_eq!(
            schedule.next().0,
            at(now) + Span::from_millis(500),
            "at least half of the pause, which is short again"
        );
    }

    #[test]
    fn after_a_failure_nothing_is_asked() {
        let mut schedule = schedule(Some(1));
        schedule.failed(at(0), Topic::Contract, 1.0);
        assert_eq!(schedule.next(), (at(1), Topic::Contract));
        assert!(!schedule.is_well());
        schedule.succeeded(at(1), Topic::Contract);
        assert!(schedule.is_well());
        schedule.failed(at(1), Topic::Levels, 1.0);
        schedule.failed(at(2), Topic::Levels, 1.0);
        assert_eq!((schedule.next(), schedule.is_well()), ((at(4), Topic::Levels), false));
    }
}

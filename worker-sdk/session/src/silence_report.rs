//! When people are told that no scheduler of a resource answers.

use rampmeter_protocol::time::{Span, Time};

/// How long schedulers may be silent. A hand-over takes tens of milliseconds, so that a longer
/// silence usually means that the name is wrong or that no scheduler runs.
const TOLD_AFTER: Span = Span::from_secs(2);
/// How often a silence that goes on is told: often enough to be found in a log, and no flood.
const TOLD_EVERY: Span = Span::from_secs(60);

/// What was told of the silence about one resource.
///
/// It looks every two seconds while a request is pending, whatever the policy.
#[derive(Debug)]
pub(super) struct SilenceReport {
    look_at: Time,
    told_at: Option<Time>,
}

impl Default for SilenceReport {
    fn default() -> Self {
        SilenceReport { look_at: Time::NEVER, told_at: None }
    }
}

impl SilenceReport {
    /// Notes that a request is pending from now on.
    pub(super) fn expect(&mut self, now: Time) {
        self.look_at = self.look_at.min(now + TOLD_AFTER);
    }

    /// When to look next.
    pub(super) fn next_look(&self) -> Time {
        self.look_at
    }

    /// Looks at a silence since `silent`, if an answer is owed. Returns its length if people are to
    /// be told.
    pub(super) fn look(&mut self, now: Time, silent: Option<Time>) -> Option<Span> {
        let told_next = self.told_at.map_or(Time::ORIGIN, |told| told + TOLD_EVERY);
        let tell_at = silent.map_or(now + TOLD_AFTER, |since| (since + TOLD_AFTER).max(told_next));
        if tell_at > now {
            self.look_at = tell_at;
            return None;
        }
        self.told_at = Some(now);
        self.look_at = now + TOLD_EVERY;
        silent.map(|since| now.since(since))
    }

    /// Notes that no request is pending any more.
    pub(super) fn rest(&mut self) {
        self.look_at = Time::NEVER;
    }

    /// Notes that a scheduler has answered. Returns whether people were told that none does.
    pub(super) fn ends(&mut self) -> bool {
        self.told_at.take().is_some()
    }
}

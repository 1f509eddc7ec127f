//! Reports that no scheduler of a resource answers.

use rampmeter_protocol::time::{Span, Time};

/// Silence before a report, far longer than a hand-over: usually the resource's name is wrong, or no scheduler runs.
const REPORTED_AFTER: Span = Span::from_secs(2);
/// Interval of reports about an ongoing silence: often enough to be found in a log, and no flood.
const REPORTED_EVERY: Span = Span::from_secs(60);

/// What was reported of a resource's silence, checked every two seconds while a request is pending.
#[derive(Debug)]
pub(crate) struct SilenceReport {
    look_at: Time,
    reported_at: Option<Time>,
}

impl Default for SilenceReport {
    fn default() -> Self {
        SilenceReport { look_at: Time::NEVER, reported_at: None }
    }
}

impl SilenceReport {
    /// Notes that a request is pending from now on.
    pub(crate) fn expect(&mut self, now: Time) {
        self.look_at = self.look_at.min(now + REPORTED_AFTER);
    }

    pub(crate) fn next_look(&self) -> Time {
        self.look_at
    }

    /// Returns how long an answer has been owed since `silent`, if that is to be reported.
    pub(crate) fn look(&mut self, now: Time, silent: Option<Time>) -> Option<Span> {
        let next_report = self.reported_at.map_or(Time::ORIGIN, |reported| reported + REPORTED_EVERY);
        let report_at = silent.map_or(now + REPORTED_AFTER, |since| (since + REPORTED_AFTER).max(next_report));
        if report_at > now {
            self.look_at = report_at;
            return None;
        }
        self.reported_at = Some(now);
        self.look_at = now + REPORTED_EVERY;
        silent.map(|since| now.since(since))
    }

    /// Notes that no request is pending any more.
    pub(crate) fn rest(&mut self) {
        self.look_at = Time::NEVER;
    }

    /// Notes that a scheduler has answered. Returns whether its silence was reported.
    pub(crate) fn ends(&mut self) -> bool {
        self.reported_at.take().is_some()
    }
}

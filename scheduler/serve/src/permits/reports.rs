//! Reports of a permit loop, within a bound on the time for them.

use crate::permits::answers::loop_request::Report;
use bytes::Bytes;
use rampmeter_protocol::forecast::LimitForecast;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// Reports take at most one part in this many of the loop's time: they walk along buckets and queues as requests wait.
const PART: u64 = 5;
/// The time for reports that accumulates during a pause.
const SAVED: Span = Span::from_millis(20);
/// The greatest age of a report that is repeated.
const OLDEST: Span = Span::from_secs(1);

/// The last reports. A flood of questions is answered with them, for at most a second.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// When all time spent on reports is paid for.
    paid_at: Time,
    /// Encoded statuses, by question.
    texts: BTreeMap<StatusQuery, (Time, Bytes)>,
    report: Option<(Time, Report)>,
    /// The forecasts of limits, and when they were computed.
    forecasts: (Time, Vec<LimitForecast>),
}

impl Reports {
    /// Returns whether there is time for a new report.
    pub(crate) fn allows(&self, now: Time) -> bool {
        self.paid_at <= now + paid(SAVED)
    }

    pub(crate) fn spend(&mut self, now: Time, took: Span) {
        self.paid_at = self.paid_at.max(now) + paid(took);
    }

    /// Returns the last status, if it is at most a second old and there is no time for another.
    pub(crate) fn known_text(&self, now: Time, asked: StatusQuery) -> Option<Bytes> {
        self.again(now, self.texts.get(&asked))
    }

    /// Keeps the status of `now` for repetition, and returns it encoded.
    pub(crate) fn note_text(&mut self, now: Time, asked: StatusQuery, status: &Status) -> Bytes {
        let text = Bytes::from(serde_json::to_vec(status).expect("a status is plain data"));
        self.texts.insert(asked, (now, text.clone()));
        text
    }

    /// Returns the last report, under the same rule as [`known_text`](Self::known_text).
    pub(crate) fn known_report(&self, now: Time) -> Option<Report> {
        self.again(now, self.report.as_ref())
    }

    pub(crate) fn note_report(&mut self, now: Time, report: &Report) {
        self.report = Some((now, report.clone()));
    }

    fn again<T: Clone>(&self, now: Time, known: Option<&(Time, T)>) -> Option<T> {
        let (made, known) = known.filter(|_| !self.allows(now))?;
        (now.since(*made) <= OLDEST).then(|| known.clone())
    }

    pub(crate) fn note_forecasts(&mut self, now: Time, forecasts: Vec<LimitForecast>) {
        self.forecasts = (now, forecasts);
    }

    /// Returns the last forecasts, with times relative to `now`.
    pub(crate) fn forecasts(&self, now: Time) -> Vec<LimitForecast> {
        let (made, forecasts) = &self.forecasts;
        let passed = now.since(*made).millis();
        forecasts.iter().map(|forecast| forecast.after(passed)).collect()
    }
}

/// Returns the time in which the loop earns `spent` for reports.
fn paid(spent: Span) -> Span {
    Span::from_nanos(spent.nanos().saturating_mul(PART))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_take_a_fifth_of_the_time() {
        let (mut reports, mut now, mut spent) = (Reports::default(), Time::ORIGIN, Span::ZERO);
        let took = Span::from_millis(3);
        while now < Time::ORIGIN + Span::from_secs(10) {
            if reports.allows(now) {
                reports.spend(now, took);
                spent = spent + took;
                now += took;
            }
            now += Span::from_millis(1);
        }
        let most = Span::from_secs(2) + SAVED + took;
        assert!(spent <= most && spent + Span::from_millis(50) >= most, "{spent}");
    }
}

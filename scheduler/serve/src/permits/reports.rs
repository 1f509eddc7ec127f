//! Reports of a permit loop, which are made again as long as there is time for them.

use crate::permits::answers::loop_request::Report;
use crate::permits::report_budget::{OLDEST, ReportBudget};
use bytes::Bytes;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// The last reports. A flood of questions gets them again for at most a second.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    budget: ReportBudget,
    /// Statuses as the protocol has them, by question.
    texts: BTreeMap<StatusQuery, (Time, Bytes)>,
    report: Option<(Time, Report)>,
}

impl Reports {
    /// Whether there is time for a report that is not known.
    pub(crate) fn allows(&self, now: Time) -> bool {
        self.budget.allows(now)
    }

    /// Notes that a report took this long.
    pub(crate) fn spend(&mut self, now: Time, took: Span) {
        self.budget.spend(now, took);
    }

    /// The last status, if it is to be sent again.
    pub(crate) fn known_text(&self, now: Time, asked: StatusQuery) -> Option<Bytes> {
        self.again(now, self.texts.get(&asked))
    }

    /// Keeps a status that was made at `now`, as text.
    pub(crate) fn note_text(&mut self, now: Time, asked: StatusQuery, status: &Status) -> Bytes {
        let text = Bytes::from(serde_json::to_vec(status).expect("a status is plain data"));
        self.texts.insert(asked, (now, text.clone()));
        text
    }

    /// The last report, if it is to be given again.
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
}

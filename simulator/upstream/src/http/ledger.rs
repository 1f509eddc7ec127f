//! The upstream with its counts.

use crate::{
    Admission, Api, Arrival, Policy, Reply, Stats, Tally,
    config::Config,
    http::call::{BadCost, Call},
    statistics::admission::AdmissionLog,
    statistics::classes::Classes,
    statistics::tally::Outcome,
};
use std::time::Duration;

/// The upstream with its counts. Pure: time is an argument.
#[derive(Debug)]
pub(crate) struct Ledger {
    api: Api,
    total: Tally,
    classes: Classes,
    log: AdmissionLog,
}

/// The decision about a call.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The call was charged; the number counts admitted calls from zero.
    Admitted {
        number: u64,
        reply: Reply,
    },
    Refused(Reply),
    Bad(BadCost),
}

impl Ledger {
    pub(crate) fn new(config: &Config, since_1970: Duration) -> Self {
        Self {
            api: Api::new(config.preset.clone()).with_origin(since_1970),
            total: Tally::default(),
            classes: Classes::default(),
            log: AdmissionLog::keeping(config.admissions_kept),
        }
    }

    /// Decides about a call that arrives at `now`, and counts it.
    pub(crate) fn arrive(&mut self, now: Duration, call: &Call) -> Verdict {
        let verdict = match &call.cost {
            Ok(cost) => self.decide(now, &Arrival { cost, label: &|label| call.labels.get(label).cloned() }),
            Err(bad) => Verdict::Bad(bad.clone()),
        };
        self.count(call.class.as_deref(), verdict.outcome());
        verdict
    }

    /// Replaces the policies from `now` on.
    pub(crate) fn change(&mut self, now: Duration, policies: Vec<Policy>) {
        self.api.change(now, policies);
    }

    /// Notes that an admitted call has ended.
    pub(crate) fn finish(&mut self) {
        self.api.finish();
    }

    pub(crate) fn stats(&self, now: Duration) -> Stats {
        Stats {
            uptime: now,
            total: self.total,
            policies: self.api.policies(now),
            classes: self.classes.tallies().clone(),
        }
    }

    pub(crate) fn admissions(&self) -> Vec<Admission> {
        self.log.kept()
    }

    fn decide(&mut self, now: Duration, arrival: &Arrival<'_>) -> Verdict {
        let reply = self.api.answer(now, arrival);
        self.log.record(now, &reply.cost, reply.rejection.is_none());
        match reply.rejection {
            None => Verdict::Admitted { number: self.total.ok, reply },
            Some(_) => Verdict::Refused(reply),
        }
    }

    fn count(&mut self, class: Option<&str>, outcome: Outcome) {
        self.total.count(outcome);
        if let Some(class) = class {
            self.classes.count(class, outcome);
        }
    }
}

impl Verdict {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Admitted { .. } => Outcome::Ok,
            Self::Refused(_) => Outcome::RateLimited,
            Self::Bad(_) => Outcome::Bad,
        }
    }
}

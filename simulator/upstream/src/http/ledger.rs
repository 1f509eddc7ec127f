//! The upstream with its counts. Pure: time is an argument.

use crate::{Admission, Api, Arrival, Reply, Stats, Tally, config::Config, http::call::Call};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) api: Api,
    total: Tally,
    pub(crate) log: Option<Vec<Admission>>,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    /// The call was charged; the number counts admitted calls from zero.
    Admitted {
        number: u64,
        reply: Reply,
    },
    Refused(Reply),
    /// The cost cannot be parsed, for this reason.
    Bad(String),
}

impl Ledger {
    pub(crate) fn new(config: &Config, since_1970: Duration) -> Self {
        Self {
            api: Api::new(config.preset.clone()).with_origin(since_1970),
            total: Tally::default(),
            log: config.keeps_admissions.then(Vec::new),
        }
    }

    pub(crate) fn arrive(&mut self, now: Duration, call: &Call) -> Verdict {
        let verdict = match &call.cost {
            Ok(cost) => self.decide(now, &Arrival { cost, label: &|label| call.labels.get(label).cloned() }),
            Err(bad) => Verdict::Bad(bad.clone()),
        };
        match &verdict {
            Verdict::Admitted { .. } => self.total.ok += 1,
            Verdict::Refused(_) => self.total.rate_limited += 1,
            Verdict::Bad(_) => self.total.bad += 1,
        }
        verdict
    }

    pub(crate) fn stats(&self, now: Duration) -> Stats {
        Stats { uptime: now, total: self.total, policies: self.api.policies(now) }
    }

    fn decide(&mut self, now: Duration, arrival: &Arrival<'_>) -> Verdict {
        let reply = self.api.answer(now, arrival);
        let accepted = reply.rejection.is_none();
        self.log.iter_mut().for_each(|log| log.push(Admission { at: now, cost: reply.cost.clone(), accepted }));
        match reply.rejection {
            None => Verdict::Admitted { number: self.total.ok, reply },
            Some(_) => Verdict::Refused(reply),
        }
    }
}

//! The account with its counts.

use crate::{
    Account, Admission, Cost, Policy, PolicyStats, Rejection, Stats, Tally,
    admission::AdmissionLog,
    call::{BadCost, Call},
    classes::Classes,
    config::Config,
    tally::Outcome,
};
use std::time::Duration;

/// The account with its counts. Pure: time is an argument.
#[derive(Debug)]
pub(crate) struct Ledger {
    account: Account,
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
        cost: Cost,
    },
    RateLimited(Rejection),
    Bad(BadCost),
}

impl Ledger {
    pub(crate) fn new(config: &Config, since_1970: Duration) -> Self {
        Self {
            account: account(config, since_1970),
            total: Tally::default(),
            classes: Classes::default(),
            log: AdmissionLog::keeping(config.admissions_kept),
        }
    }

    /// Decides about a call that arrives at `now`, and counts it.
    pub(crate) fn arrive(&mut self, now: Duration, call: Call) -> Verdict {
        let verdict = match call.cost {
            Ok(cost) => self.decide(now, cost),
            Err(bad) => Verdict::Bad(bad),
        };
        self.count(call.class.as_deref(), verdict.outcome());
        verdict
    }

    /// Replaces the policies from `now` on.
    pub(crate) fn change(&mut self, now: Duration, policies: Vec<Policy>) {
        self.account.change(now, policies);
    }

    /// An admitted call has ended.
    pub(crate) fn finish(&mut self) {
        self.account.finish();
    }

    /// What each policy has spent and could spend.
    pub(crate) fn policies(&self, now: Duration) -> Vec<PolicyStats> {
        self.account.policies(now)
    }

    pub(crate) fn stats(&self, now: Duration) -> Stats {
        Stats { uptime: now, total: self.total, policies: self.policies(now), classes: self.classes.tallies().clone() }
    }

    pub(crate) fn admissions(&self) -> Vec<Admission> {
        self.log.kept()
    }

    fn decide(&mut self, now: Duration, cost: Cost) -> Verdict {
        let decision = self.account.admit(now, &cost);
        self.log.record(now, &cost, decision.is_ok());
        match decision {
            Ok(()) => Verdict::Admitted { number: self.total.ok, cost },
            Err(rejection) => Verdict::RateLimited(rejection),
        }
    }

    fn count(&mut self, class: Option<&str>, outcome: Outcome) {
        self.total.count(outcome);
        if let Some(class) = class {
            self.classes.count(class, outcome);
        }
    }
}

fn account(config: &Config, since_1970: Duration) -> Account {
    let account = Account::new(config.policies.clone()).with_windows_since(since_1970);
    match config.concurrency {
        Some(limit) => account.with_concurrency(limit),
        None => account,
    }
}

impl Verdict {
    /// The cost of an admitted call.
    pub(crate) fn cost(&self) -> Option<&Cost> {
        match self {
            Self::Admitted { cost, .. } => Some(cost),
            Self::RateLimited(_) | Self::Bad(_) => None,
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Admitted { .. } => Outcome::Ok,
            Self::RateLimited(_) => Outcome::RateLimited,
            Self::Bad(_) => Outcome::Bad,
        }
    }
}

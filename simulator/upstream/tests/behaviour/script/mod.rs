//! Sequences of calls, as tables.

use rampmeter_upstream::{Account, Cost, Policy, Rejection};
use std::time::Duration;

/// One call: its arrival in nanoseconds, its cost, its outcome, and the levels afterwards.
pub(crate) struct Step {
    at_ns: u64,
    cost: &'static str,
    verdict: Verdict,
    levels: &'static [&'static str],
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    Admitted,
    WaitNs(u64),
    Busy,
    Never,
}

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;
pub(crate) const HOUR: u64 = 3_600 * SECOND;

pub(crate) fn step(at_ns: u64, cost: &'static str, verdict: Verdict, levels: &'static [&'static str]) -> Step {
    Step { at_ns, cost, verdict, levels }
}

/// Runs a table against an account with these policies. A call is admitted after the wait that it is told, and
/// not a nanosecond earlier, unless time ends before.
pub(crate) fn check(policies: &[&str], steps: &[Step]) {
    let (mut account, mut latest_ns) = (account(policies), 0);
    for (number, step) in steps.iter().enumerate() {
        latest_ns = step.at_ns.max(latest_ns);
        let at = Duration::from_nanos(step.at_ns);
        let verdict = Verdict::from(account.admit(at, &cost(step.cost)));
        let levels: Vec<String> = account.policies(at).iter().map(|policy| policy.level.to_string()).collect();
        assert_eq!(verdict, step.verdict, "{policies:?}, step {number}");
        assert_eq!(levels, step.levels, "{policies:?}, step {number}");
        if let Verdict::WaitNs(wait_ns) = verdict
            && let Some(end_ns) = latest_ns.checked_add(wait_ns)
        {
            let asked = |at_ns| account.clone().admit(Duration::from_nanos(at_ns), &cost(step.cost));
            assert_eq!(asked(end_ns), Ok(()), "{policies:?}, step {number}");
            assert!(asked(end_ns - 1).is_err(), "{policies:?}, step {number}");
        }
    }
}

pub(crate) fn account(policies: &[&str]) -> Account {
    Account::new(policies.iter().map(|text| text.parse::<Policy>().unwrap()).collect())
}

/// Reads `requests=2 processing-units=2.5`.
pub(crate) fn cost(text: &str) -> Cost {
    text.split_whitespace().fold(Cost::new(), |cost, item| {
        let (unit, amount) = item.split_once('=').unwrap();
        cost.with(unit.parse().unwrap(), amount.parse().unwrap())
    })
}

impl From<Result<(), Rejection>> for Verdict {
    fn from(result: Result<(), Rejection>) -> Self {
        match result {
            Ok(()) => Self::Admitted,
            Err(Rejection::RetryAfter(wait)) => Self::WaitNs(wait.as_nanos().try_into().unwrap()),
            Err(Rejection::TooManyInFlight) => Self::Busy,
            Err(Rejection::Never) => Self::Never,
        }
    }
}

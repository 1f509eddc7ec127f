//! How a world fared.

use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::ids::ClassId;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// How a world fared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// The fleets, in the order in which they were added.
    pub fleets: Vec<FleetOutcome>,
    /// What the scheduler was asked for, in the order in which it first heard of it; empty where
    /// there is none.
    pub requests: Vec<Request>,
    /// Which of the requests it granted, in that order.
    pub grants: Vec<usize>,
    /// What could be spent at the upstream, where the world was observed.
    pub levels: Vec<Levels>,
}

/// What could be spent at the upstream at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Levels {
    /// When.
    pub at: Time,
    /// By unit, in millionths.
    pub micros: BTreeMap<String, u64>,
}

/// One request, as the scheduler saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Who asked: workers are counted through all fleets.
    pub worker: usize,
    /// In this class.
    pub class: ClassId,
    /// What the call costs.
    pub cost: Arc<Cost<'static>>,
    /// When the scheduler first heard of it.
    pub heard: Time,
    /// How long it had waited then, because it was lost on the way.
    pub age: Span,
    /// How long it first expected it to wait, where it said so.
    pub estimate: Option<Span>,
    /// What it was granted.
    pub granted: Option<Granted>,
    /// When it was given back, or refused.
    pub returned: Option<Time>,
    /// The quota that was spent, where it was refused for that.
    pub spent: Option<Name>,
    /// When the scheduler first heard that its call is over.
    pub settled: Option<Time>,
}

/// A permit, as the scheduler granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Granted {
    /// When.
    pub at: Time,
    /// For a call at this time.
    pub start: Time,
}

/// How a fleet fared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FleetOutcome {
    /// Its name.
    pub name: String,
    /// Its calls, in the order in which the upstream saw them.
    pub calls: Vec<Call>,
    /// How often the scheduler refused, cancelled requests left out.
    pub refused: u64,
    /// Calls that nobody will make, because it would be useless to ask for them again.
    pub given_up: u64,
    /// Calls that were wanted and not served when the world ended: by worker, counted through all
    /// fleets, and since when.
    pub unfinished: Vec<(usize, Time)>,
    /// Since when there was work for which no worker was free.
    pub backlog: Vec<Time>,
}

/// One call, as the upstream saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Who made it: workers are counted through all fleets.
    pub worker: usize,
    /// When it reached the upstream.
    pub at: Time,
    /// What it cost, or would have cost.
    pub cost: Arc<Cost<'static>>,
    /// From when the worker first wanted it until it made the call, calls that were answered with
    /// 429 included.
    pub wait: Span,
    /// The request for it, of those that the scheduler heard.
    pub request: Option<usize>,
    /// Whether the upstream served it; otherwise it answered 429.
    pub ok: bool,
    /// When the worker had the response.
    pub answered: Time,
}

impl Outcome {
    /// Calls that the upstream served.
    #[must_use]
    pub fn ok(&self) -> usize {
        self.fleets.iter().map(FleetOutcome::ok).sum()
    }

    /// Calls that the upstream answered with 429.
    #[must_use]
    pub fn rejected(&self) -> usize {
        self.fleets.iter().map(FleetOutcome::rejected).sum()
    }

    /// A number that tells this outcome from any other: the same world under the same seed has the
    /// same.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// When the last response was there, from the beginning.
    #[must_use]
    pub fn finished(&self) -> Span {
        let responses = self.fleets.iter().flat_map(|fleet| &fleet.calls).map(|call| call.answered);
        responses.max().unwrap_or(Time::ORIGIN).since(Time::ORIGIN)
    }
}

impl FleetOutcome {
    /// Calls that the upstream served.
    #[must_use]
    pub fn ok(&self) -> usize {
        self.calls.iter().filter(|call| call.ok).count()
    }

    /// Calls that the upstream answered with 429.
    #[must_use]
    pub fn rejected(&self) -> usize {
        self.calls.len() - self.ok()
    }

    /// Calls that the upstream served from `from` on, before `to`.
    #[must_use]
    pub fn ok_between(&self, from: Time, to: Time) -> usize {
        self.calls.iter().filter(|call| call.ok && (from..to).contains(&call.at)).count()
    }

    /// The wait that so many of a hundred calls which were served did not exceed; zero where there
    /// was none.
    #[must_use]
    pub fn wait_percentile(&self, percent: usize) -> Span {
        let mut waits: Vec<Span> = self.calls.iter().filter(|call| call.ok).map(|call| call.wait).collect();
        waits.sort_unstable();
        percentile(&waits, percent)
    }
}

/// The value of these, in order, that so many of a hundred do not exceed; zero where there is none.
pub(crate) fn percentile(sorted: &[Span], percent: usize) -> Span {
    let rank = (sorted.len() * percent).div_ceil(100);
    rank.checked_sub(1).and_then(|index| sorted.get(index).copied()).unwrap_or(Span::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_waits_that_occurred() {
        let call = |millis| Call {
            worker: 0,
            at: Time::ORIGIN,
            cost: Arc::default(),
            wait: Span::from_millis(millis),
            request: None,
            ok: true,
            answered: Time::ORIGIN,
        };
        let fleet = FleetOutcome { calls: (1..=200).rev().map(call).collect(), ..FleetOutcome::default() };
        for (percent, millis) in [(0, 0), (1, 2), (50, 100), (99, 198), (100, 200)] {
            assert_eq!(fleet.wait_percentile(percent), Span::from_millis(millis), "{percent}");
        }
        assert_eq!(FleetOutcome::default().wait_percentile(99), Span::ZERO);
    }
}

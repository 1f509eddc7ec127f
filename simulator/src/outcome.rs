//! The result of a world's run.

use rampmeter_policy::ids::ClassId;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::Rejections;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The result of a world's run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// The fleets, in the order in which they were added.
    pub fleets: Vec<FleetOutcome>,
    /// All requests in the order of their first arrival at the scheduler; empty without one.
    pub requests: Vec<Request>,
    /// Indexes of the granted requests, in the order of the grants.
    pub grants: Vec<usize>,
    /// The upstream's levels, if the world was observed.
    pub levels: Vec<Levels>,
    /// The upstream's rejections by the scheduler's inferred cause; none without a scheduler.
    pub causes: Rejections,
}

/// The upstream's levels at one time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Levels {
    /// The time of the observation.
    pub at: Time,
    /// The levels by unit, in millionths.
    pub micros: BTreeMap<String, u64>,
}

/// One request, as the scheduler saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Its worker, counted through all fleets.
    pub worker: usize,
    /// Its class.
    pub class: ClassId,
    /// The accounts that may not make its call.
    pub not: Vec<Name>,
    /// The cost of the call.
    pub cost: Arc<Cost<'static>>,
    /// When it first reached the scheduler.
    pub arrived: Time,
    /// How long the worker had already waited, because messages were lost.
    pub age: Span,
    /// The wait that the scheduler first estimated, if it sent one.
    pub estimate: Option<Span>,
    /// The permit, if one was granted.
    pub granted: Option<Granted>,
    /// When the permit was returned or the request refused.
    pub returned: Option<Time>,
    /// The spent quota for which the request was refused.
    pub spent: Option<Name>,
    /// When a report that the call was over first reached the scheduler.
    pub settled: Option<Time>,
}

/// A permit as the scheduler granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Granted {
    /// When it was granted.
    pub at: Time,
    /// The start of its call.
    pub start: Time,
    /// The account that makes its call, counted through the resource's.
    pub account: Option<usize>,
}

/// The outcome of one fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FleetOutcome {
    /// The name in the scenario.
    pub name: String,
    /// Its calls, in the order in which they reached the upstream.
    pub calls: Vec<Call>,
    /// Calls that the upstream refused with a 401, which it does not count; they are none of `calls`.
    pub unauthorized: u64,
    /// Refusals by the scheduler, without cancelled requests.
    pub refused: u64,
    /// Calls that are not made because asking again is useless.
    pub given_up: u64,
    /// Calls still wanted at the end: the worker, counted through all fleets, and since when.
    pub unfinished: Vec<(usize, Time)>,
    /// Arrival times of work that found no free worker.
    pub backlog: Vec<Time>,
}

/// One call as the upstream saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Its worker, counted through all fleets.
    pub worker: usize,
    /// The account that made it, counted through the resource's.
    pub account: Option<usize>,
    /// When it reached the upstream.
    pub at: Time,
    /// Its cost, even if it was not admitted.
    pub cost: Arc<Cost<'static>>,
    /// Time from when the worker wanted the call until it was made, attempts with a 429 included.
    pub wait: Span,
    /// Its request, if it reached the scheduler.
    pub request: Option<usize>,
    /// Whether the upstream served it; otherwise it answered 429.
    pub ok: bool,
    /// When the response reached the worker.
    pub answered: Time,
}

impl Outcome {
    /// Returns the number of calls that the upstream served.
    #[must_use]
    pub fn ok(&self) -> usize {
        self.fleets.iter().map(FleetOutcome::ok).sum()
    }

    /// Returns the number of calls that the upstream answered with 429.
    #[must_use]
    pub fn rejected(&self) -> usize {
        self.fleets.iter().map(FleetOutcome::rejected).sum()
    }

    /// Returns a hash of the outcome, equal for the same world and seed.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the time from the beginning to the last response.
    #[must_use]
    pub fn finished(&self) -> Span {
        let responses = self.fleets.iter().flat_map(|fleet| &fleet.calls).map(|call| call.answered);
        responses.max().unwrap_or(Time::ORIGIN).since(Time::ORIGIN)
    }
}

impl FleetOutcome {
    /// Returns the number of calls that the upstream served.
    #[must_use]
    pub fn ok(&self) -> usize {
        self.calls.iter().filter(|call| call.ok).count()
    }

    /// Returns the number of calls that the upstream answered with 429.
    #[must_use]
    pub fn rejected(&self) -> usize {
        self.calls.len() - self.ok()
    }

    /// Returns the number of calls that the upstream served from `from` until before `to`.
    #[must_use]
    pub fn ok_between(&self, from: Time, to: Time) -> usize {
        self.calls.iter().filter(|call| call.ok && (from..to).contains(&call.at)).count()
    }

    /// Returns the given percentile of the waits of served calls; zero without calls.
    #[must_use]
    pub fn wait_percentile(&self, percent: usize) -> Span {
        let mut waits: Vec<Span> = self.calls.iter().filter(|call| call.ok).map(|call| call.wait).collect();
        waits.sort_unstable();
        percentile(&waits, percent)
    }
}

/// Returns the given percentile of the sorted values; zero without values.
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
            account: None,
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

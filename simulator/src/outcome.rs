//! How a world fared.

use rampmeter_protocol::time::{Span, Time};
use std::hash::{Hash, Hasher};

/// How a world fared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// The fleets, in the order in which they were added.
    pub fleets: Vec<FleetOutcome>,
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
}

/// One call, as the upstream saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Who made it: workers are counted through all fleets.
    pub worker: usize,
    /// When it reached the upstream.
    pub at: Time,
    /// Whether it cost what calls cost every other time.
    pub shifted: bool,
    /// From the worker's first request until it made the call, calls that were answered with 429 included.
    pub wait: Span,
    /// What the scheduler first expected that to be, where the worker was told.
    pub estimate: Option<Span>,
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

    /// A number that tells this outcome from any other: the same world under the same seed has the same.
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

    /// The wait that so many of a hundred calls which were served did not exceed; zero where there was none.
    #[must_use]
    pub fn wait_percentile(&self, percent: usize) -> Span {
        let mut waits: Vec<Span> = self.calls.iter().filter(|call| call.ok).map(|call| call.wait).collect();
        waits.sort_unstable();
        let rank = (waits.len() * percent).div_ceil(100);
        rank.checked_sub(1).and_then(|index| waits.get(index).copied()).unwrap_or(Span::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_waits_that_occurred() {
        let call = |millis| Call {
            worker: 0,
            at: Time::ORIGIN,
            shifted: false,
            wait: Span::from_millis(millis),
            estimate: None,
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

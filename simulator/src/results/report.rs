//! The figures of a run, for people and scripts.

use crate::outcome::{Call, FleetOutcome, Outcome, percentile};
use crate::results::usage::most_used;
use crate::workers::fleet::Fleet;
use crate::world::World;
use rampmeter_policy::Resource;
use rampmeter_protocol::time::{Span, Time};
use serde::Serialize;
use std::collections::BTreeMap;

/// The figures of a run. Strangers count only in `used` and `fleets`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The workers' strategy.
    pub strategy: String,
    /// Calls that the upstream served.
    pub ok: usize,
    /// Calls that the upstream answered with 429.
    pub rejected: usize,
    /// Time from the beginning to the last response, or to the end of the world.
    pub seconds: f64,
    /// The limit used most.
    pub binding: String,
    /// The fraction of its capacity and refill that was used.
    pub used: f64,
    /// [Jain's index](jain) of clients' weighted shares, each of the limit that it uses most.
    pub jain: f64,
    /// Calls wanted and not served when the world ended.
    pub unfinished: usize,
    /// Clients with requests that were never served.
    pub starved: usize,
    /// By fleet, in the order of the scenario, strangers included.
    pub fleets: Vec<Group>,
    /// By class, the most urgent first.
    pub classes: Vec<Group>,
    /// By client with a request, by name; workers without a client count as one.
    pub clients: Vec<Group>,
}

/// The figures for some of the calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The name of the fleet, class or client.
    pub name: String,
    /// Calls that the upstream served.
    pub ok: usize,
    /// Calls that the upstream answered with 429.
    pub rejected: usize,
    /// Calls wanted and not served when the world ended.
    pub unfinished: usize,
    /// Waits of served calls, since a worker first wanted them.
    pub wait_ms: Waits,
}

/// Waits in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

const UNNAMED: &str = "(unnamed)";

impl Report {
    /// Computes the figures of `outcome`, the outcome of `world`.
    ///
    /// # Panics
    /// If the outcome is that of another world.
    #[must_use]
    pub fn new(world: &World, outcome: &Outcome) -> Self {
        let length = (Time::ORIGIN + outcome.finished()).min(world.until).since(Time::ORIGIN);
        let (binding, used) = most_used(world, outcome, length);
        let fleets = fleets(world, outcome);
        let own: Vec<FleetResult<'_>> = fleets.iter().filter(|result| !result.fleet.foreign).copied().collect();
        let clients = clients(&own);
        let shares: Vec<f64> = clients.iter().map(|(name, client)| client.share(world, name)).collect();
        let all = Group::new("", own.iter().copied());
        Report {
            strategy: world.strategy.to_string(),
            ok: all.ok,
            rejected: all.rejected,
            seconds: length.secs(),
            binding: binding.to_string(),
            used,
            jain: jain(&shares),
            unfinished: all.unfinished,
            starved: clients.values().filter(|client| client.is_starved()).count(),
            fleets: fleets.iter().map(|result| Group::new(&result.fleet.name, [*result])).collect(),
            classes: classes(world, &own),
            clients: clients.iter().map(|(name, client)| client.group(name)).collect(),
        }
    }
}

impl Group {
    fn new<'a>(name: &str, fleets: impl IntoIterator<Item = FleetResult<'a>>) -> Self {
        let fleets: Vec<FleetResult<'_>> = fleets.into_iter().collect();
        let unfinished =
            fleets.iter().map(|result| result.outcome.unfinished.len() + result.outcome.backlog.len()).sum();
        Group::of_calls(name, fleets.iter().flat_map(|result| &result.outcome.calls), unfinished)
    }

    fn of_calls<'a>(name: &str, calls: impl IntoIterator<Item = &'a Call>, unfinished: usize) -> Self {
        let (served, rejected): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| call.ok);
        let wait_ms = Waits::of(served.iter().map(|call| call.wait).collect());
        Group { name: name.to_owned(), ok: served.len(), rejected: rejected.len(), unfinished, wait_ms }
    }
}

impl Waits {
    fn of(mut waits: Vec<Span>) -> Self {
        waits.sort_unstable();
        let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(&waits, percent).millis());
        Waits { p50, p99, max }
    }
}

#[derive(Clone, Copy)]
struct FleetResult<'a> {
    fleet: &'a Fleet,
    outcome: &'a FleetOutcome,
}

fn fleets<'a>(world: &'a World, outcome: &'a Outcome) -> Vec<FleetResult<'a>> {
    world.fleets.iter().zip(&outcome.fleets).map(|(fleet, outcome)| FleetResult { fleet, outcome }).collect()
}

fn classes(world: &World, fleets: &[FleetResult<'_>]) -> Vec<Group> {
    let resource = Resource::new(&world.resource).expect("the world has run");
    let default = resource.classes()[resource.default_class().index()].name.clone();
    let of_class = |name: &str| {
        let fleets = fleets.iter().filter(|result| result.fleet.class.as_deref().unwrap_or(&default) == name);
        Group::new(name, fleets.copied())
    };
    resource.classes().iter().map(|class| of_class(&class.name)).collect()
}

#[derive(Default)]
struct Client<'a> {
    calls: Vec<&'a Call>,
    unfinished: usize,
}

impl Client<'_> {
    fn group(&self, name: &str) -> Group {
        Group::of_calls(name, self.calls.iter().copied(), self.unfinished)
    }

    fn is_starved(&self) -> bool {
        self.calls.iter().all(|call| !call.ok)
    }

    /// The seconds' worth of its most used limit that it used, divided by its weight.
    fn share(&self, world: &World, name: &str) -> f64 {
        let served = self.calls.iter().filter(|call| call.ok);
        served.map(|call| world.dominant_share(&call.cost)).sum::<f64>() / world.weight(name)
    }
}

fn clients<'a>(fleets: &[FleetResult<'a>]) -> BTreeMap<String, Client<'a>> {
    let mut clients: BTreeMap<String, Client<'_>> = BTreeMap::new();
    for FleetResult { fleet, outcome } in fleets {
        let name = |worker| fleet.client(worker).map_or(UNNAMED.to_owned(), |client| client.to_string());
        for call in &outcome.calls {
            clients.entry(name(call.worker)).or_default().calls.push(call);
        }
        for (worker, _) in &outcome.unfinished {
            clients.entry(name(*worker)).or_default().unfinished += 1;
        }
    }
    clients
}

/// Jain's index (Σx)² / (n · Σx²), which is one for equal shares (Jain, Chiu and Hawe, 1984).
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|share| share * share).sum::<f64>());
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness() {
        for (shares, index) in [(&[3.0, 3.0, 3.0][..], 1.0), (&[1.0, 0.0], 0.5), (&[0.0, 0.0], 1.0)] {
            assert_eq!(jain(shares), index, "{shares:?}");
        }
    }
}

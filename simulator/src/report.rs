//! What a run comes to, in numbers for people and scripts.

use crate::fleet::{Clients, Fleet};
use crate::outcome::{FleetOutcome, Outcome};
use crate::world::World;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::spec::LimitSpec;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a run comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// How workers kept to the limits.
    pub strategy: String,
    /// Calls that the upstream served.
    pub ok: usize,
    /// Calls that it answered with 429.
    pub rejected: usize,
    /// From the beginning to the last response, or to the end of the world.
    pub seconds: f64,
    /// The limit that was used most.
    pub binding: String,
    /// The part of its capacity and refill that was used.
    pub used: f64,
    /// How evenly clients were served, from 0 to 1 (Jain, Chiu and Hawe, 1984): by weight, and by the limit that each
    /// burdens most.
    pub jain: f64,
    /// Clients that were never served.
    pub starved: usize,
    /// By fleet.
    pub fleets: Vec<FleetReport>,
}

/// What it comes to for a fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetReport {
    /// Its name.
    pub fleet: String,
    /// Calls that the upstream served.
    pub ok: usize,
    /// Calls that it answered with 429.
    pub rejected: usize,
    /// Waits of served calls, from the first request on.
    pub wait_ms: Waits,
}

/// Waits in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waits {
    /// Half waited no longer.
    pub p50: f64,
    /// Ninety-nine of a hundred waited no longer.
    pub p99: f64,
    /// Nobody waited longer.
    pub max: f64,
}

impl Report {
    /// What `outcome` comes to, which `world` had.
    #[must_use]
    pub fn new(world: &World, outcome: &Outcome) -> Self {
        let end = Time::ORIGIN + outcome.finished();
        let length = end.min(world.until).since(Time::ORIGIN);
        let uses = world.resource.limits.iter().map(|limit| (use_of(world, outcome, limit, length), limit));
        let (used, binding) = uses.max_by(|(a, _), (b, _)| a.total_cmp(b)).expect("a resource has a limit");
        let clients: Vec<f64> = served_by_client(world, outcome).into_values().collect();
        Report {
            strategy: world.strategy.to_string(),
            ok: outcome.ok(),
            rejected: outcome.rejected(),
            seconds: length.secs(),
            binding: binding.name.to_string(),
            used,
            jain: jain(&clients),
            starved: clients.iter().filter(|served| **served == 0.0).count(),
            fleets: outcome.fleets.iter().map(FleetReport::new).collect(),
        }
    }
}

impl FleetReport {
    fn new(fleet: &FleetOutcome) -> Self {
        let [p50, p99, max] = [50, 99, 100].map(|percent| fleet.wait_percentile(percent).millis());
        let wait_ms = Waits { p50, p99, max };
        FleetReport { fleet: fleet.name.clone(), ok: fleet.ok(), rejected: fleet.rejected(), wait_ms }
    }
}

/// The part of what a limit held and refilled that served calls took.
fn use_of(world: &World, outcome: &Outcome, limit: &LimitSpec, length: Span) -> f64 {
    let fleets = world.fleets.iter().zip(&outcome.fleets);
    let taken: f64 = fleets.map(|(fleet, fared)| taken_by(fleet, fared, limit)).sum();
    let capacity = limit.capacity.units();
    taken / (capacity + capacity * length.secs() / limit.period.secs())
}

fn taken_by(fleet: &Fleet, fared: &FleetOutcome, limit: &LimitSpec) -> f64 {
    let served = fared.calls.iter().filter(|call| call.ok && call.at >= Time::ORIGIN);
    served.map(|call| fleet.amount(&limit.unit, call.shifted).units()).sum()
}

/// Seconds for which each client took up the limit that it burdened most, by weight.
fn served_by_client(world: &World, outcome: &Outcome) -> BTreeMap<(usize, usize), f64> {
    let mut served = BTreeMap::new();
    let mut first_worker = 0;
    for (number, (fleet, fared)) in world.fleets.iter().zip(&outcome.fleets).enumerate() {
        let each = fleet.clients == Clients::Each;
        let client = |worker: usize| (number, if each { worker } else { 0 });
        served.extend((first_worker..first_worker + fleet.workers).map(|worker| (client(worker), 0.0)));
        for call in fared.calls.iter().filter(|call| call.ok) {
            let share = dominant_share(world, fleet, call.shifted) / weight(world, fleet, call.worker);
            *served.entry(client(call.worker)).or_insert(0.0) += share;
        }
        first_worker += fleet.workers;
    }
    served
}

fn weight(world: &World, fleet: &Fleet, worker: usize) -> f64 {
    let client = fleet.client(worker).unwrap_or_default();
    let weights = world.resource.fair_share.as_ref().map(|fair| &fair.weights);
    weights.and_then(|weights| weights.get(&*client)).map_or(1.0, |weight| weight.times())
}

fn dominant_share(world: &World, fleet: &Fleet, shifted: bool) -> f64 {
    let share =
        |limit: &LimitSpec| fleet.amount(&limit.unit, shifted).units() * limit.period.secs() / limit.capacity.units();
    world.resource.limits.iter().map(share).fold(0.0, f64::max)
}

/// (Σx)² / (n · Σx²).
fn jain(shares: &[f64]) -> f64 {
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

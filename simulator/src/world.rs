//! The parts of a simulation.

use crate::incident::Incident;
use crate::network::Network;
use crate::upstream::Behaviour;
use crate::workers::cost::amount_of;
use crate::workers::fleet::Fleet;
use crate::workers::strategy::Strategy;
use crate::world_error::WorldError;
use rampmeter_dialects::Reader;
use rampmeter_policy::spec::{LimitSpec, ResourceSpec};
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::labels::{ACCOUNT, Labels, LabelsError};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_upstream::Preset;
use std::collections::BTreeSet;

/// A resource, its upstream, a network and workers.
#[derive(Clone, Debug)]
pub struct World {
    pub(crate) resource: ResourceSpec,
    pub(crate) seed: u64,
    pub(crate) network: Network,
    pub(crate) upstream: Behaviour,
    reader: Option<Reader>,
    pub(crate) strategy: Strategy,
    pub(crate) fleets: Vec<Fleet>,
    pub(crate) until: Time,
    pub(crate) observed: Option<Span>,
    pub(crate) polled: Option<Span>,
    pub(crate) incidents: Vec<(Time, Incident)>,
}

/// Longest name of a fleet or client, in bytes, which with a number still fits into a label.
const MAX_NAME: usize = 200;

impl World {
    /// Creates a world without workers, which runs until all workers have stopped.
    #[must_use]
    pub fn new(resource: ResourceSpec, seed: u64) -> Self {
        World {
            resource,
            seed,
            network: Network::default(),
            upstream: Behaviour::default(),
            reader: None,
            strategy: Strategy::default(),
            fleets: Vec::new(),
            until: Time::NEVER,
            observed: None,
            polled: None,
            incidents: Vec::new(),
        }
    }

    /// Adds a fleet.
    #[must_use]
    pub fn with(mut self, fleet: Fleet) -> Self {
        self.fleets.push(fleet);
        self
    }

    /// Sets the network.
    #[must_use]
    pub fn across(self, network: Network) -> Self {
        World { network, ..self }
    }

    /// Sets the upstream.
    #[must_use]
    pub fn against(self, upstream: Behaviour) -> Self {
        World { upstream, ..self }
    }

    /// Sets the reader for the upstream's responses, whatever their dialect is.
    #[must_use]
    pub fn reading(self, reader: Reader) -> Self {
        World { reader: Some(reader), ..self }
    }

    /// Sets the workers' strategy.
    #[must_use]
    pub fn by(self, strategy: Strategy) -> Self {
        World { strategy, ..self }
    }

    /// Ends the world at `until`.
    #[must_use]
    pub fn until(self, until: Time) -> Self {
        World { until, ..self }
    }

    /// Returns when the world ends; [`Time::NEVER`] if it runs until all workers have stopped.
    #[must_use]
    pub fn end(&self) -> Time {
        self.until
    }

    /// Records the upstream's levels at this interval.
    #[must_use]
    pub fn observed_every(self, interval: Span) -> Self {
        World { observed: Some(interval).filter(|interval| *interval > Span::ZERO), ..self }
    }

    /// Lets the scheduler ask for the upstream's levels at this interval.
    #[must_use]
    pub fn polled_every(self, interval: Span) -> Self {
        World { polled: Some(interval).filter(|interval| *interval > Span::ZERO), ..self }
    }

    /// Adds an incident of the scheduler.
    #[must_use]
    pub fn with_incident(mut self, at: Time, incident: Incident) -> Self {
        self.incidents.push((at, incident));
        self
    }

    /// Returns the upstream before its first change.
    ///
    /// # Errors
    /// If the upstream has no model of a limit.
    pub fn upstream(&self) -> Result<Preset, WorldError> {
        self.upstream.preset(&self.resource)
    }

    pub(crate) fn reader(&self) -> Reader {
        self.reader.clone().unwrap_or_else(|| self.upstream.reader())
    }

    pub(crate) fn client_label(&self) -> Option<&str> {
        self.resource.fair_share.as_ref().map(|fair| fair.label.as_str())
    }

    /// For how many seconds a call uses up the shared limit that it uses most.
    pub(crate) fn dominant_share(&self, cost: &Cost<'_>) -> f64 {
        let seconds =
            |limit: &LimitSpec| amount_of(cost, &limit.unit).units() * limit.period.secs() / limit.capacity.units();
        let shared = self.resource.limits.iter().filter(|limit| limit.applies.is_everything());
        shared.map(seconds).fold(0.0, f64::max)
    }

    /// How many times another client's share this client gets.
    pub(crate) fn weight(&self, client: &str) -> f64 {
        let weights = self.resource.fair_share.as_ref().map(|fair| &fair.weights);
        weights.and_then(|weights| weights.get(client)).map_or(1.0, |weight| weight.times())
    }

    pub(crate) fn workers(&self) -> usize {
        self.fleets.iter().map(|fleet| fleet.workers).sum()
    }

    pub(crate) fn fleet_of(&self, worker: usize) -> (usize, &Fleet) {
        let mut end = 0;
        let fleet = self.fleets.iter().position(|fleet| {
            end += fleet.workers;
            worker < end
        });
        let fleet = fleet.expect("workers are counted through all fleets");
        (fleet, &self.fleets[fleet])
    }

    /// Returns the labels of a worker's requests. Panics if the world cannot run.
    pub(crate) fn labels_of(&self, worker: usize) -> Labels<'static> {
        let (_, fleet) = self.fleet_of(worker);
        fleet.labels(worker, self.client_label()).expect("checked with the world")
    }

    /// Adds the account that makes a call to the labels of its worker.
    pub(crate) fn labels_at<'a>(&self, labels: &Labels<'a>, account: Option<usize>) -> Labels<'a> {
        match account {
            Some(account) => labels.clone().with(ACCOUNT, self.resource.accounts[account].name.to_string()),
            None => labels.clone(),
        }
    }

    pub(crate) fn check_fleets(&self) -> Result<(), WorldError> {
        // Workers that die again and again may never finish.
        let dies_on = |fleet: &Fleet| fleet.crashes.is_some_and(|crashes| crashes.until == Time::NEVER);
        let goes_on = |fleet: &Fleet| fleet.calls.is_none() || dies_on(fleet);
        let endless = |fleet: &&Fleet| goes_on(fleet) && fleet.until.min(self.until) == Time::NEVER;
        if let Some(fleet) = self.fleets.iter().find(endless) {
            return Err(WorldError::Endless(fleet.name.clone()));
        }
        let too_long = |fleet: &&Fleet| fleet.name.len().max(fleet.client.as_ref().map_or(0, String::len)) > MAX_NAME;
        if let Some(fleet) = self.fleets.iter().find(too_long) {
            let reason = format!("a fleet and its client have names of at most {MAX_NAME} bytes");
            return Err(WorldError::Fleet { fleet: fleet.name.clone(), reason });
        }
        for fleet in &self.fleets {
            let fault = |error: LabelsError| WorldError::Fleet { fleet: fleet.name.clone(), reason: error.to_string() };
            fleet.labels(usize::MAX, self.client_label()).map_err(fault)?;
        }
        let mut names = BTreeSet::new();
        if let Some(fleet) = self.fleets.iter().find(|fleet| !names.insert(&fleet.name)) {
            return Err(WorldError::Twice(fleet.name.clone()));
        }
        Ok(())
    }
}

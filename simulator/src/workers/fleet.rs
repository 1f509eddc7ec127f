//! Fleets of equal workers.

use crate::workers::cost::{CostModel, Draw};
use rampmeter_protocol::labels::{Labels, LabelsError};
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

/// A fleet of identical workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Its name in reports.
    pub name: String,
    /// The number of workers.
    pub workers: usize,
    /// The class of their requests; the resource's default class if absent.
    pub class: Option<String>,
    /// How the workers divide into clients.
    pub clients: Clients,
    /// The client's name if all workers are [one](Clients::One); the fleet's name if absent.
    pub client: Option<String>,
    /// Labels of their requests besides the one for the client.
    pub labels: BTreeMap<String, Values>,
    /// The cost of a call.
    pub cost: CostModel,
    /// A second cost that alternates with the first.
    pub shift: Option<Shift>,
    /// The mode of their requests.
    pub mode: Mode,
    /// The source of their work.
    pub arrivals: Arrivals,
    /// Calls per worker; `None` for no end.
    pub calls: Option<u32>,
    /// Mean pause between a response and the next request, in an [`Arrivals::Loop`] only. Each pause
    /// is half to one and a half times as long, and the first a random part of it.
    pub think: Span,
    /// When the workers begin.
    pub from: Time,
    /// When the workers stop asking and cancel their waiting requests.
    pub until: Time,
    /// How the workers die.
    pub crashes: Option<Crashes>,
    /// Whether these are strangers, who use the account without permits.
    pub foreign: bool,
}

/// The source of a fleet's work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Each worker waits for its response, pauses, and asks again.
    Loop,
    /// Work arrives at random and waits for a free worker.
    Poisson {
        /// Mean number of arrivals per second.
        per_second: f64,
    },
    /// Work arrives in bursts, the first when the fleet begins, and waits for free workers.
    Bursts {
        /// Arrivals in one burst.
        calls: u32,
        /// Time from one burst to the next.
        every: Span,
    },
}

/// How workers die: without notice, with permits and waiting requests. Sent messages still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crashes {
    /// Mean life of a worker.
    pub every: Span,
    /// Pause before a dead worker starts again.
    pub pause: Span,
    /// No worker dies after this time.
    pub until: Time,
}

/// How the workers of a fleet divide into clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clients {
    /// The workers state no client.
    #[serde(rename = "none")]
    Unnamed,
    /// All workers are one client.
    One,
    /// Each worker is a client.
    Each,
}

/// The values of one label of a fleet's requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "a value for all, or { of = 50 }")]
pub enum Values {
    /// The same value for all.
    One(String),
    /// This many values, such as `guild-0` to `guild-49`, assigned to the workers in turn.
    Of {
        /// The number of values.
        of: NonZeroU32,
    },
}

impl Values {
    fn of(&self, worker: usize, label: &str) -> String {
        match self {
            Values::One(value) => value.clone(),
            Values::Of { of } => format!("{label}-{}", worker % of.get() as usize),
        }
    }
}

/// A cost that alternates with the fleet's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shift {
    /// How long each of the two costs lasts.
    pub every: Span,
    /// The alternate cost.
    pub to: CostModel,
}

impl Fleet {
    /// Creates workers of the default class that wait for their turn, never pause and never stop.
    #[must_use]
    pub fn new(name: &str, workers: usize) -> Self {
        Fleet {
            name: name.to_owned(),
            workers,
            class: None,
            clients: Clients::Unnamed,
            client: None,
            labels: BTreeMap::new(),
            cost: CostModel::new(),
            shift: None,
            mode: Mode::Wait,
            arrivals: Arrivals::Loop,
            calls: None,
            think: Span::ZERO,
            from: Time::ORIGIN,
            until: Time::NEVER,
            crashes: None,
            foreign: false,
        }
    }

    /// Adds a cost in `unit` to the fleet's calls.
    #[must_use]
    pub fn costing(mut self, unit: &str, draw: impl Into<Draw>) -> Self {
        self.cost = self.cost.with(unit, draw);
        self
    }

    /// Divides the fleet into these clients.
    #[must_use]
    pub fn of_clients(self, clients: Clients) -> Self {
        Fleet { clients, ..self }
    }

    /// Sets the class.
    #[must_use]
    pub fn of_class(self, class: &str) -> Self {
        Fleet { class: Some(class.to_owned()), ..self }
    }

    pub(crate) fn client(&self, worker: usize) -> Option<Arc<str>> {
        match self.clients {
            Clients::Unnamed => None,
            Clients::One => Some(Arc::from(self.client.as_ref().unwrap_or(&self.name).as_str())),
            Clients::Each => Some(Arc::from(format!("{}-{worker}", self.name))),
        }
    }

    /// Returns the labels of a worker's requests, its client's included, if they are within bounds.
    pub(crate) fn labels(&self, worker: usize, naming_client: Option<&str>) -> Result<Labels<'static>, LabelsError> {
        let mut labels = Labels::new();
        for (label, values) in &self.labels {
            labels.set(label.clone(), values.of(worker, label))?;
        }
        if let (Some(label), Some(client)) = (naming_client, self.client(worker)) {
            labels.set(label.to_owned(), client.to_string())?;
        }
        Ok(labels)
    }

    pub(crate) fn cost_at(&self, now: Time) -> &CostModel {
        let shifted = self.shift.as_ref().filter(|shift| now.nanos() / shift.every.nanos().max(1) % 2 == 1);
        shifted.map_or(&self.cost, |shift| &shift.to)
    }
}

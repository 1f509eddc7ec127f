//! Workers that are alike.

use crate::cost::{CostModel, Draw};
use rampmeter_protocol::labels::{Labels, LabelsError};
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Workers that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Its name, for people.
    pub name: String,
    /// How many there are.
    pub workers: usize,
    /// The class they ask in; the resource's default where there is none.
    pub class: Option<String>,
    /// With whom they share what their class gets.
    pub clients: Clients,
    /// What they are called where they are [one client](Clients::One); like the fleet where there
    /// is nothing.
    pub client: Option<String>,
    /// Labels of its requests, beside the one that names the client.
    pub labels: BTreeMap<String, Values>,
    /// What a call costs.
    pub cost: CostModel,
    /// What it costs at other times.
    pub shift: Option<Shift>,
    /// How they ask.
    pub mode: Mode,
    /// Where their work comes from.
    pub arrivals: Arrivals,
    /// How many calls each of them makes; without end where there is none.
    pub calls: Option<u32>,
    /// How long they think between a response and the next request on average: from half to half as
    /// much again. Before its first request each has thought for a part of that. Only where
    /// arrivals are a [`Arrivals::Loop`].
    pub think: Span,
    /// When they begin.
    pub from: Time,
    /// When they stop asking, and cancel what they still wait for.
    pub until: Time,
    /// How they die.
    pub crashes: Option<Crashes>,
    /// Whether they are strangers who use the same account and ask nobody.
    pub foreign: bool,
}

/// Where the work of a fleet comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Each worker waits for its response, and then thinks, before it asks again.
    Loop,
    /// Work comes by chance, and waits for a worker that is free.
    Poisson {
        /// So much of it in a second, on average.
        per_second: f64,
    },
    /// Work comes so much at a time, for the first time when the fleet begins, and waits for
    /// workers that are free.
    Bursts {
        /// How much at a time.
        calls: u32,
        /// From one time to the next.
        every: Span,
    },
}

/// How workers die: without a word, with their permits and whatever they waited for. What they have
/// sent arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crashes {
    /// How long each of them lives, on average.
    pub every: Span,
    /// How long it is gone, before it starts anew.
    pub pause: Span,
    /// From when on nobody dies any more.
    pub until: Time,
}

/// The clients that the workers of a fleet are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// None: they name no client.
    Unnamed,
    /// One together.
    One,
    /// Each is a client of its own.
    Each,
}

/// What the requests of a fleet have as the value of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// All the same.
    One(String),
    /// So many, such as `guild-0` to `guild-49`: workers have them in turn, each its own for good.
    Of(NonZeroU32),
}

impl Values {
    /// What a worker has.
    fn of(&self, worker: usize, label: &str) -> String {
        match self {
            Values::One(value) => value.clone(),
            Values::Of(count) => format!("{label}-{}", worker % count.get() as usize),
        }
    }
}

/// Costs that change back and forth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shift {
    /// After how long.
    pub every: Span,
    /// What a call costs every other time.
    pub to: CostModel,
}

impl Fleet {
    /// So many workers of the default class, who wait for their turn, ask without a pause, and stop
    /// never.
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

    /// The same fleet, whose calls cost this much of `unit` too.
    #[must_use]
    pub fn costing(mut self, unit: &str, draw: impl Into<Draw>) -> Self {
        self.cost = self.cost.with(unit, draw);
        self
    }

    /// The same fleet, made up of these clients.
    #[must_use]
    pub fn of_clients(self, clients: Clients) -> Self {
        Fleet { clients, ..self }
    }

    /// The same fleet, in this class.
    #[must_use]
    pub fn of_class(self, class: &str) -> Self {
        Fleet { class: Some(class.to_owned()), ..self }
    }

    /// The client that a worker is.
    pub(crate) fn client(&self, worker: usize) -> Option<Arc<str>> {
        match self.clients {
            Clients::Unnamed => None,
            Clients::One => Some(Arc::from(self.client.as_ref().unwrap_or(&self.name).as_str())),
            Clients::Each => Some(Arc::from(format!("{}-{worker}", self.name))),
        }
    }

    /// The labels of what a worker asks for, where one of them names the client.
    ///
    /// # Errors
    /// If they are more or longer than those of a request may be.
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

    /// What the calls cost that are wanted at `now`.
    pub(crate) fn cost_at(&self, now: Time) -> &CostModel {
        let shifted = self.shift.as_ref().filter(|shift| now.nanos() / shift.every.nanos().max(1) % 2 == 1);
        shifted.map_or(&self.cost, |shift| &shift.to)
    }
}

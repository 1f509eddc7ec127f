//! Workers that are alike.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

/// Workers that are alike. Each waits for its response, and then thinks, before it asks again.
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
    /// What a call costs, by unit; one request unless it says otherwise.
    pub cost: Vec<(String, Amount)>,
    /// What it costs at other times.
    pub shift: Option<Shift>,
    /// How they ask.
    pub mode: Mode,
    /// How many calls each of them makes; without end where there is none.
    pub calls: Option<u32>,
    /// How long they think between a response and the next request on average: from half to half as
    /// much again. Before its first request each has thought for a part of that.
    pub think: Span,
    /// When they begin.
    pub from: Time,
    /// When they stop asking, and cancel what they still wait for.
    pub until: Time,
}

/// The clients that the workers of a fleet are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// None: they name no client.
    Unnamed,
    /// One, called like the fleet.
    One,
    /// Each is a client of its own.
    Each,
}

/// Costs that change back and forth.
#[derive(Clone, Debug, PartialEq)]
pub struct Shift {
    /// After how long.
    pub every: Span,
    /// What a call costs every other time, by unit.
    pub to: Vec<(String, Amount)>,
}

impl Fleet {
    /// So many workers of the default class, who wait for their turn, ask without a pause, and stop never.
    #[must_use]
    pub fn new(name: &str, workers: usize) -> Self {
        Fleet {
            name: name.to_owned(),
            workers,
            class: None,
            clients: Clients::Unnamed,
            cost: Vec::new(),
            shift: None,
            mode: Mode::Wait,
            calls: None,
            think: Span::ZERO,
            from: Time::ORIGIN,
            until: Time::NEVER,
        }
    }

    /// The same fleet, whose calls cost this much of `unit` too.
    #[must_use]
    pub fn costing(mut self, unit: &str, amount: Amount) -> Self {
        self.cost.push((unit.to_owned(), amount));
        self
    }

    /// The same fleet, made up of these clients.
    #[must_use]
    pub fn of_clients(self, clients: Clients) -> Self {
        Fleet { clients, ..self }
    }

    /// The client that a worker is.
    pub(crate) fn client(&self, worker: usize) -> Option<Arc<str>> {
        match self.clients {
            Clients::Unnamed => None,
            Clients::One => Some(Arc::from(self.name.as_str())),
            Clients::Each => Some(Arc::from(format!("{}-{worker}", self.name))),
        }
    }

    /// What a call takes of `unit`, usually or shifted.
    pub(crate) fn amount(&self, unit: &str, shifted: bool) -> Amount {
        let shift = self.shift.as_ref().filter(|_| shifted);
        let cost = shift.map_or(&self.cost, |shift| &shift.to);
        let implied = if unit == REQUESTS { Amount::ONE } else { Amount::ZERO };
        cost.iter().find(|(known, _)| known == unit).map_or(implied, |(_, amount)| *amount)
    }

    /// The same fleet, in this class.
    #[must_use]
    pub fn of_class(self, class: &str) -> Self {
        Fleet { class: Some(class.to_owned()), ..self }
    }
}

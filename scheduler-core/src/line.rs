//! Requests that wait for their turn.

use crate::bill::Bill;
use crate::ledger::Backlog;
use crate::resource::{Class, ClassId, Resource};
use crate::slab::Slot;
use rampmeter_protocol::time::Time;
use std::collections::BTreeMap;

/// What is known of a waiting request beside its id and bill.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<R> {
    pub(crate) to: R,
    pub(crate) class: ClassId,
    pub(crate) place: Place,
    pub(crate) deadline: Option<Time>,
    /// Whether it wants to be told how it stands.
    pub(crate) progress: bool,
}

/// A place in line: by arrival, less the age that a request brought along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) arrived: Time,
    pub(crate) serial: u64,
}

/// The line of one class, first come, first served.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    places: BTreeMap<Place, Slot>,
    backlog: Backlog,
    /// When a start was last given to this class while it had a line.
    served: Time,
}

impl Line {
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        Line { places: BTreeMap::new(), backlog: Backlog::none(resource), served: now }
    }

    pub(crate) fn join(&mut self, resource: &Resource, place: Place, slot: Slot, bill: &Bill) {
        self.places.insert(place, slot);
        self.backlog.add(resource, bill);
    }

    pub(crate) fn leave(&mut self, resource: &Resource, place: Place, bill: &Bill) {
        let known = self.places.remove(&place);
        assert!(known.is_some(), "who leaves a line was in it");
        self.backlog.remove(resource, bill);
    }

    /// Notes that the class was given a start.
    pub(crate) fn serve(&mut self, now: Time) {
        self.served = now;
    }

    pub(crate) fn head(&self) -> Option<(Place, Slot)> {
        self.places.first_key_value().map(|(place, slot)| (*place, *slot))
    }

    /// When the oldest request goes ahead of everybody: it has waited for `max_starvation`, and so
    /// long nobody of its class was served.
    pub(crate) fn promotion(&self, class: &Class) -> Option<Time> {
        let (oldest, _) = self.head()?;
        Some(oldest.arrived.max(self.served) + class.max_starvation?)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Everybody in line, the first first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.places.values().copied()
    }

    /// Who stands at `place` and behind it. Newcomers have few behind them.
    pub(crate) fn from(&self, place: Place) -> impl Iterator<Item = Slot> {
        self.places.range(place..).map(|(_, slot)| *slot)
    }

    pub(crate) fn has(&self, place: Place) -> bool {
        self.places.contains_key(&place)
    }

    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }
}

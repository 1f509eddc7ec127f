//! Calls in flight whose places are kept for them.

use super::vocabulary::{AskNumber, BatchNumber, ResourceNumber};
use rampmeter_protocol::settle::Asked;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A place is renewed so often within its time to live: two renewals may be lost.
const RENEWALS: u64 = 3;
/// No more often than this, whatever the time to live: shorter ones are a mistake, and no reason for a flood.
const LEAST_INTERVAL: Span = Span::from_millis(50);

/// The permits whose calls take up a place, by ask. Bounded by the calls of the process.
#[derive(Debug, Default)]
pub(super) struct Leases {
    held: BTreeMap<AskNumber, Lease>,
    due: BTreeSet<(Time, AskNumber)>,
}

/// One permit's place.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) resource: ResourceNumber,
    /// What a scheduler that does not know the permit has to know.
    pub(super) asked: Asked<'static>,
    interval: Span,
    due: Time,
    batch: Option<BatchNumber>,
}

impl Lease {
    /// A place that is free again `span` after its call's start, unless it is renewed.
    pub(super) fn new(resource: ResourceNumber, asked: Asked<'static>, start: Time, span: Span) -> Self {
        let interval = Span::from_nanos(span.nanos() / RENEWALS).max(LEAST_INTERVAL);
        Lease { resource, asked, interval, due: start + interval, batch: None }
    }

    /// The same for a call whose scheduler may have begun to count long ago.
    pub(super) fn due_at(self, start: Time) -> Self {
        Lease { due: start, ..self }
    }
}

impl Leases {
    pub(super) fn begin(&mut self, ask: AskNumber, lease: Lease) {
        self.due.insert((lease.due, ask));
        self.held.insert(ask, lease);
    }

    pub(super) fn end(&mut self, ask: AskNumber) {
        if let Some(lease) = self.held.remove(&ask) {
            self.due.remove(&(lease.due, ask));
        }
    }

    pub(super) fn end_all(&mut self) {
        *self = Leases::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn get(&self, ask: AskNumber) -> Option<&Lease> {
        self.held.get(&ask)
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Whose places are to be renewed now.
    pub(super) fn first_due(&self, now: Time) -> Option<ResourceNumber> {
        let (due, ask) = self.due.first()?;
        (*due <= now).then(|| self.held[ask].resource)
    }

    /// The next of this resource that is to be renewed now; it travels in `batch`.
    pub(super) fn renew_next(&mut self, now: Time, of: ResourceNumber, batch: BatchNumber) -> Option<AskNumber> {
        let mut due = self.due.iter().take_while(|(due, _)| *due <= now).map(|(_, ask)| *ask);
        let ask = due.find(|ask| self.held[ask].resource == of)?;
        self.held.get_mut(&ask)?.batch = Some(batch);
        self.postpone(ask, now + self.held[&ask].interval);
        Some(ask)
    }

    /// Has those that nobody received renewed again after `pause`.
    pub(super) fn undelivered(&mut self, now: Time, batch: BatchNumber, pause: Span) {
        let lost = self.held.iter().filter(|(_, lease)| lease.batch == Some(batch)).map(|(ask, _)| *ask);
        lost.collect::<Vec<_>>().into_iter().for_each(|ask| self.hasten(now, ask, pause));
    }

    /// Has this one renewed after `pause`, if that is not later than it would be.
    pub(super) fn hasten(&mut self, now: Time, ask: AskNumber, pause: Span) {
        if let Some(lease) = self.held.get(&ask) {
            self.postpone(ask, lease.due.min(now + pause));
        }
    }

    fn postpone(&mut self, ask: AskNumber, due: Time) {
        if let Some(lease) = self.held.get_mut(&ask) {
            self.due.remove(&(lease.due, ask));
            lease.due = due;
            self.due.insert((due, ask));
        }
    }
}

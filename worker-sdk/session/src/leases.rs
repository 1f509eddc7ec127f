//! The leases of calls in flight, by ask. The calls of the process bound their number.

use super::event::{AskNumber, BatchNumber, ResourceNumber};
use rampmeter_protocol::settle::Asked;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Renewals before a lease ends. Two may be lost.
const RENEWALS: u64 = 3;
/// Shortest interval of renewals. A shorter lease is a mistake and must not cause a flood.
const MIN_INTERVAL: Span = Span::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Leases {
    held: BTreeMap<AskNumber, Lease>,
    due: BTreeSet<(Time, AskNumber)>,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) resource: ResourceNumber,
    /// What a scheduler that does not know the permit needs to charge or end the call.
    pub(super) asked: Asked<'static>,
    span: Span,
    /// When the lease ends, as far as a scheduler has confirmed it.
    pub(super) ends: Time,
    interval: Span,
    due: Time,
    batch: Option<BatchNumber>,
}

impl Lease {
    /// Creates a lease that ends `span` after its call's start unless renewed. The first renewal of
    /// an old one is at that start: the scheduler may have counted from long before.
    pub(super) fn new(resource: ResourceNumber, asked: Asked<'static>, start: Time, span: Span, is_old: bool) -> Self {
        let interval = Span::from_nanos(span.nanos() / RENEWALS).max(MIN_INTERVAL);
        let due = if is_old { start } else { start + interval };
        Lease { resource, asked, span, ends: start + span, interval, due, batch: None }
    }
}

impl Leases {
    pub(super) fn begin(&mut self, ask: AskNumber, lease: Lease) {
        self.due.insert((lease.due, ask));
        self.held.insert(ask, lease);
    }

    pub(super) fn end(&mut self, ask: AskNumber) -> Option<Lease> {
        let lease = self.held.remove(&ask)?;
        self.due.remove(&(lease.due, ask));
        Some(lease)
    }

    pub(super) fn confirm(&mut self, ask: AskNumber) {
        if let Some(lease) = self.held.get_mut(&ask) {
            // It was sent when the next one became due an interval later.
            lease.ends = lease.ends.max(lease.due - lease.interval + lease.span);
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

    pub(super) fn first_due(&self, now: Time) -> Option<ResourceNumber> {
        let (due, ask) = self.due.first()?;
        (*due <= now).then(|| self.held[ask].resource)
    }

    /// Returns the next lease of this resource that is due for renewal, which travels in `batch`.
    pub(super) fn renew_next(&mut self, now: Time, of: ResourceNumber, batch: BatchNumber) -> Option<AskNumber> {
        let mut due = self.due.iter().take_while(|(due, _)| *due <= now).map(|(_, ask)| *ask);
        let ask = due.find(|ask| self.held[ask].resource == of)?;
        self.held.get_mut(&ask)?.batch = Some(batch);
        self.postpone(ask, now + self.held[&ask].interval);
        Some(ask)
    }

    /// Renews the leases of an undelivered batch again after `pause`.
    pub(super) fn undelivered(&mut self, now: Time, batch: BatchNumber, pause: Span) {
        let lost = self.held.iter().filter(|(_, lease)| lease.batch == Some(batch)).map(|(ask, _)| *ask);
        lost.collect::<Vec<_>>().into_iter().for_each(|ask| self.hasten(now, ask, pause));
    }

    /// Renews this lease after `pause`, unless it is due sooner.
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

//! The leases of calls in flight, and their renewal.

use super::command::Command;
use super::numbers::{AskNumber, BatchNumber, ResourceNumber};
use super::outbox::payload::ArrayPayload;
use super::{Session, SessionOptions};
use rampmeter_protocol::answer::Refused;
use rampmeter_protocol::code::{Code, Remedy};
use rampmeter_protocol::settle::{Asked, Fate, Settle};
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How often a lease is renewed before it ends. Two renewals may be lost.
const RENEWALS: u64 = 3;
/// The shortest interval of renewals. A shorter lease is a mistake and must not cause a flood.
const MIN_INTERVAL: Span = Span::from_millis(50);
/// The pause before a failed renewal is repeated. Up to as much again is added at random.
const RETRY: Span = Span::from_millis(125);

/// The leases of calls in flight, by ask. The calls of the process bound their number.
#[derive(Debug, Default)]
pub(super) struct Leases {
    held: BTreeMap<AskNumber, Lease>,
    due: BTreeSet<(Time, AskNumber)>,
}

/// The lease of one call.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) resource: ResourceNumber,
    /// What a scheduler needs to count or end the call if it does not know the permit.
    pub(super) asked: Asked<'static>,
    span: Span,
    /// When the lease ends, as far as a scheduler has confirmed it.
    ends: Time,
    interval: Span,
    due: Time,
    batch: Option<BatchNumber>,
}

impl Lease {
    /// A lease that ends `span` after its call's start unless it is renewed.
    pub(super) fn new(resource: ResourceNumber, asked: Asked<'static>, start: Time, span: Span) -> Self {
        let interval = Span::from_nanos(span.nanos() / RENEWALS).max(MIN_INTERVAL);
        Lease { resource, asked, span, ends: start + span, interval, due: start + interval, batch: None }
    }

    /// The same lease, first renewed at `start`, because the scheduler may have counted for a long
    /// time.
    pub(super) fn first_due_at(self, start: Time) -> Self {
        Lease { due: start, ..self }
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

    /// Notes that a scheduler has confirmed the renewal that was sent last.
    fn confirm(&mut self, ask: AskNumber) {
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

    /// The resource of the next renewal that is due now.
    pub(super) fn first_due(&self, now: Time) -> Option<ResourceNumber> {
        let (due, ask) = self.due.first()?;
        (*due <= now).then(|| self.held[ask].resource)
    }

    /// The next lease of this resource that is due for renewal. The renewal travels in `batch`.
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

impl Session {
    /// Leaves it to the caller to renew leases, with settles that say `extend`.
    #[must_use]
    pub fn without_renewal(self) -> Self {
        Session { options: SessionOptions { renews: false, ..self.options }, ..self }
    }

    /// Keeps the lease of a call whose permit was granted.
    pub(super) fn keep(&mut self, number: AskNumber, asked: Asked<'static>, place: Place) {
        let Place { resource, start, span, was_sent_again } = place;
        if !self.options.renews || span == Span::ZERO {
            return;
        }
        let lease = Lease::new(resource, asked, start, span);
        // A lost answer may have granted the permit long ago.
        self.leases.begin(number, if was_sent_again { lease.first_due_at(start) } else { lease });
    }

    /// Queues a settle. A settle that ends the call ends its renewal. While the lease runs, it says
    /// what the call was asked for: after a crash, the successor ends the call by that.
    pub(super) fn settled(&mut self, now: Time, resource: ResourceNumber, mut settle: Settle<'static>) {
        if settle.fate != Fate::Extended && !self.leases.is_empty() {
            let lease = self.ids.ask(settle.id.as_str()).and_then(|ask| self.leases.end(ask));
            settle.asked = lease.filter(|lease| now < lease.ends).map(|lease| lease.asked).or(settle.asked);
        }
        self.outbox(resource).settle(settle);
    }

    /// One message with the leases that are due for renewal. Each names the cost and labels of its
    /// permit: a successor that does not know the permit counts the call by them.
    pub(super) fn renew(&mut self, now: Time) -> Option<Command> {
        let resource = self.leases.first_due(now)?;
        let batch = self.next_batch();
        let mut array = ArrayPayload::default();
        while !array.is_full() {
            let Some(number) = self.leases.renew_next(now, resource, batch) else { break };
            let asked = self.leases.get(number).map(|lease| lease.asked.clone()).unwrap_or_default();
            array.push(&Settle::extension(self.ids.id(number), asked));
        }
        Some(Command::Renew { resource, batch, payload: array.finish() })
    }

    /// Notes that a scheduler has confirmed a renewal.
    pub(super) fn renewed(&mut self, now: Time, id: &str) {
        let number = self.ids.ask(id);
        number.into_iter().for_each(|number| self.leases.confirm(number));
        let lease = number.and_then(|number| self.leases.get(number));
        if let Some(resource) = lease.map(|lease| lease.resource) {
            self.note_contact(now, resource, false);
        }
    }

    pub(super) fn renewals_undelivered(&mut self, now: Time, batch: BatchNumber) {
        let pause = RETRY + self.dice.span_up_to(RETRY);
        self.leases.undelivered(now, batch, pause);
    }

    /// Handles a refused renewal: the scheduler hands over or is in doubt, or another call has the
    /// place.
    pub(super) fn renewal_refused(&mut self, now: Time, number: AskNumber, refusal: &Refused<'_>) {
        let Some(resource) = self.leases.get(number).map(|lease| lease.resource) else { return };
        let code = refusal.code;
        if self.outbox(resource).schedulers.epoch.is_past(now, refusal.epoch) || code.remedy() == Remedy::Repeat {
            let pause = RETRY + self.dice.span_up_to(RETRY);
            return self.leases.hasten(now, number, pause);
        }
        let id = self.ids.id(number);
        // After other refusals the call may get its place again, so that its renewal goes on.
        if matches!(code, Code::UnknownPermit | Code::InvalidRequest) {
            self.leases.end(number);
        }
        self.results.push_back(Command::Unrenewed { resource, id, code, message: Box::from(&*refusal.message) });
    }
}

/// The place of a granted call.
pub(super) struct Place {
    pub(super) resource: ResourceNumber,
    /// When the call begins to hold the place.
    pub(super) start: Time,
    /// How long the call holds the place unless its lease is renewed.
    pub(super) span: Span,
    /// Whether the permit may have been granted long before its answer came.
    pub(super) was_sent_again: bool,
}

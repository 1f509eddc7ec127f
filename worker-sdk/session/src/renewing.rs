//! Keeping places for calls in flight, for as long as they are.

use super::Session;
use super::leases::Lease;
use super::payload::ArrayPayload;
use super::vocabulary::{AskNumber, BatchNumber, Command, ResourceNumber};
use rampmeter_protocol::answer::Refused;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::settle::{Asked, Settle};
use rampmeter_protocol::time::{Span, Time};

/// Who found nobody tries again after this time and as much again by chance.
const RETRY: Span = Span::from_millis(125);

impl Session {
    /// Leaves it to the caller to renew what calls in flight hold, with settles that say `extend`.
    #[must_use]
    pub fn without_renewal(self) -> Self {
        Session { renews: false, ..self }
    }

    /// A permit was granted whose call takes up a place for `span` from its start on.
    pub(super) fn keep(&mut self, number: AskNumber, asked: Asked<'static>, place: Place) {
        let Place { resource, start, span, was_sent_again } = place;
        if !self.renews || span == Span::ZERO {
            return;
        }
        let lease = Lease::new(resource, asked, start, span);
        // The answer that was lost may have been given long ago.
        self.leases.begin(number, if was_sent_again { lease.due_at(start) } else { lease });
    }

    /// A settle is to be sent; one that ends the call ends its renewal.
    pub(super) fn settled(&mut self, resource: ResourceNumber, settle: Settle<'static>) {
        if !settle.extend && !self.leases.is_empty() {
            self.ids.ask(settle.id.as_str()).into_iter().for_each(|ask| self.leases.end(ask));
        }
        self.lane(resource).settle(settle);
    }

    /// The renewals of one message, of those that are due. Each says what its permit was asked for with: a scheduler that was not there
    /// when it was granted may have to count the call anew.
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

    /// A scheduler has spoken.
    pub(super) fn renewed(&mut self, now: Time, id: &str) {
        let lease = self.ids.ask(id).and_then(|number| self.leases.get(number));
        if let Some(resource) = lease.map(|lease| lease.resource) {
            self.hear(now, resource, false);
        }
    }

    pub(super) fn renewals_undelivered(&mut self, now: Time, batch: BatchNumber) {
        let pause = RETRY + self.dice.span_up_to(RETRY);
        self.leases.undelivered(now, batch, pause);
    }

    /// A renewal is refused: by a scheduler that is on its way out or not sure yet, or because the place is another's.
    pub(super) fn renewal_refused(&mut self, now: Time, number: AskNumber, refusal: &Refused<'_>) {
        let Some(resource) = self.leases.get(number).map(|lease| lease.resource) else { return };
        let code = refusal.code;
        if self.is_past(resource, refusal.epoch) || code == Code::Unavailable {
            let pause = RETRY + self.dice.span_up_to(RETRY);
            return self.leases.hasten(now, number, pause);
        }
        let id = self.ids.id(number);
        // Whose place was another's for a time has it again.
        if matches!(code, Code::UnknownPermit | Code::InvalidRequest) {
            self.leases.end(number);
        }
        self.results.push_back(Command::Unrenewed { resource, id, code, message: Box::from(&*refusal.message) });
    }
}

/// What a granted call takes up.
pub(super) struct Place {
    pub(super) resource: ResourceNumber,
    /// From when on.
    pub(super) start: Time,
    /// For how long, unless it is renewed.
    pub(super) span: Span,
    /// Whether the permit may have been granted long before its answer came.
    pub(super) was_sent_again: bool,
}

//! Renewing the leases of calls in flight.

use super::Session;
use super::command::Command;
use super::event::{AskNumber, BatchNumber, ResourceNumber};
use super::outbox::payload::ArrayPayload;
use rampmeter_protocol::answer::Refused;
use rampmeter_protocol::code::{Code, Remedy};
use rampmeter_protocol::settle::{Fate, Settle};
use rampmeter_protocol::time::{Span, Time};

/// Pause before a failed renewal is repeated, to which up to as much is added at random.
const RETRY: Span = Span::from_millis(125);

impl Session {
    /// Queues a settle, and stops the renewal of a call that it ends. While the lease runs, the
    /// settle contains what was requested, so that a successor can end the call after a crash.
    pub(super) fn settled(&mut self, now: Time, resource: ResourceNumber, mut settle: Settle<'static>) {
        if settle.fate != Fate::Extended && !self.leases.is_empty() {
            let lease = self.ids.ask(settle.id.as_str()).and_then(|ask| self.leases.end(ask));
            settle.asked = lease.filter(|lease| now < lease.ends).map(|lease| lease.asked).or(settle.asked);
        }
        self.outbox(resource).settles.push(settle);
    }

    /// Returns one message with the leases that are due for renewal. Each contains the cost and
    /// labels of its permit, by which a successor that does not know the permit charges the call.
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

    /// Handles a refusal: the scheduler hands over or is in doubt, or another call has the place.
    pub(super) fn renewal_refused(&mut self, now: Time, number: AskNumber, refusal: &Refused<'_>) {
        let Some(resource) = self.leases.get(number).map(|lease| lease.resource) else { return };
        let code = refusal.code;
        if self.outbox(resource).schedulers.epoch.is_past(now, refusal.epoch) || code.remedy() == Remedy::Repeat {
            let pause = RETRY + self.dice.span_up_to(RETRY);
            return self.leases.hasten(now, number, pause);
        }
        let id = self.ids.id(number);
        // After other refusals the call may get its place again, so its renewal continues.
        if matches!(code, Code::UnknownPermit | Code::InvalidRequest) {
            self.leases.end(number);
        }
        self.results.push_back(Command::Unrenewed { resource, id, code, message: Box::from(&*refusal.message) });
    }
}

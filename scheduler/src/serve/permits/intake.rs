//! What workers send to a permit loop.

use crate::serve::messages::inbound::{Address, Endpoint, Inbound};
use crate::serve::messages::reply::{ReplyTo, refusal};
use crate::serve::permits::leadership_state::LeadershipState;
use crate::serve::permits::permit_loop::PermitLoop;
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::explain::Question;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::incoming::{Incoming, Invalid};
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::adaptation::observation::Observation;
use rampmeter_scheduler_core::command::Command;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::wire;

/// How far the clocks of worker and scheduler may differ before a request counts as forgotten.
const CLOCK_TOLERANCE: Span = Span::from_secs(60);

impl PermitLoop {
    /// Takes an inbound message at `now`, and returns when that was done.
    pub(crate) fn take(&mut self, now: Time, inbound: Inbound) -> Time {
        let Inbound { endpoint, reply, payload } = inbound;
        match endpoint {
            Endpoint::Permit => self.take_permits(now, reply, &payload),
            Endpoint::Settle => self.take_settles(now, reply, &payload),
            Endpoint::Status => self.tell_status(now, reply),
            Endpoint::Explain => self.explain(now, reply, &payload),
            Endpoint::Purge => self.take_purge(now, reply, &payload),
            Endpoint::Echo => self.hear_echo(now, &payload),
            Endpoint::Unknown(subject) => {
                if let Some(reply) = reply {
                    let message = format!("`{subject}` is not a subject of the protocol");
                    self.refuse_invalid(ReplyTo::alone(reply), None, message);
                }
            }
        }
        let done = self.clock.now();
        self.tally.decisions.observe(done.since(now));
        done
    }

    /// Who does not want an answer does not want a permit.
    fn take_permits(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) {
        let Some(reply) = reply else { return };
        if let Address::Subject(inbox) = &reply {
            self.undelivered.note_alive(inbox);
        }
        match Incoming::<PermitRequest>::parse(payload) {
            Incoming::One(request) => self.take_permit(now, ReplyTo::alone(reply), request),
            Incoming::Many(requests) => {
                let mut array = requests.is_empty().then(|| self.outbox.begin_array(reply.clone()));
                for request in requests {
                    let to = self.place(&reply, &mut array, &request);
                    self.take_permit(now, to, request);
                }
                array.into_iter().for_each(|array| self.outbox.end_array(array));
            }
        }
    }

    /// In an array those who wait are answered one by one, the others together.
    fn place(
        &mut self,
        reply: &Address,
        array: &mut Option<usize>,
        request: &Result<PermitRequest<'_>, Invalid>,
    ) -> ReplyTo {
        match request {
            Ok(PermitRequest { mode: Mode::Wait, .. }) => ReplyTo::alone(reply.clone()),
            Ok(PermitRequest { mode: Mode::Allow | Mode::Reserve, .. }) | Err(_) => {
                let array = *array.get_or_insert_with(|| self.outbox.begin_array(reply.clone()));
                self.outbox.place(array)
            }
        }
    }

    fn take_permit(&mut self, now: Time, to: ReplyTo, request: Result<PermitRequest<'_>, Invalid>) {
        let request = match request {
            Ok(request) => request,
            Err(invalid) => return self.refuse_invalid(to, invalid.id.as_ref(), invalid.to_string()),
        };
        let to = to.with_left(request.left);
        if let LeadershipState::Clearing { .. } = self.leadership {
            let message = "the scheduler has been away; ask again at once".to_owned();
            return self.refuse(to, request.id.as_ref(), Code::Unavailable, message);
        }
        if let Some(late_by) = forgotten_for(&request) {
            let message = format!("`sent_unix_ms`: sent so long ago that its `max_wait_ms` passed {late_by} ms ago");
            return self.refuse(to, request.id.as_ref(), Code::NotInTime, message);
        }
        self.note_epoch(now, request.epoch);
        match wire::ask(self.core.resource(), to, &request) {
            Ok(ask) => self.handle(now, Event::Ask(ask)),
            Err((to, refusal)) => {
                self.answer(now, Command::Refuse { to, id: request.id, refusal });
            }
        }
    }

    fn take_settles(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) {
        match Incoming::<Settle>::parse(payload) {
            Incoming::One(settle) => self.take_settle(now, reply.map(ReplyTo::alone), settle),
            Incoming::Many(settles) => {
                let array = reply.map(|reply| self.outbox.begin_array(reply));
                for settle in settles {
                    let to = array.map(|array| self.outbox.place(array));
                    self.take_settle(now, to, settle);
                }
                array.into_iter().for_each(|array| self.outbox.end_array(array));
            }
        }
    }

    fn take_settle(&mut self, now: Time, to: Option<ReplyTo>, settle: Result<Settle<'_>, Invalid>) {
        match settle {
            Ok(settle) => {
                let observation = self.hear_upstream(now, &settle);
                let settle = wire::settle(self.core.resource(), to, &settle, observation);
                self.handle(now, Event::Settle(settle));
            }
            Err(invalid) => {
                tracing::warn!(reason = %invalid, "a settle is not of the protocol");
                if let Some(to) = to {
                    self.refuse_invalid(to, invalid.id.as_ref(), invalid.to_string());
                }
            }
        }
    }

    fn hear_upstream(&mut self, now: Time, settle: &Settle<'_>) -> Option<Observation> {
        let response = settle.response.as_ref()?;
        if response.is_throttled() {
            let retry_after = response.headers.get("retry-after");
            tracing::warn!(id = %settle.id, retry_after, "the upstream answered 429");
        }
        Some(self.response_reader.hear(now, &mut self.tally, &settle.id, response))
    }

    fn tell_status(&mut self, now: Time, reply: Option<Address>) {
        if let Some(reply) = reply {
            let status = self.status(now);
            self.outbox.send(reply, &status);
        }
    }

    fn explain(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) {
        let Some(reply) = reply else { return };
        let question = match Question::parse(payload) {
            Ok(question) => question,
            Err(invalid) => {
                return self.refuse_invalid(ReplyTo::alone(reply), invalid.id.as_ref(), invalid.to_string());
            }
        };
        match self.core.explain(now, question.id.as_ref()) {
            Ok(explanation) => self.outbox.send(reply, &explanation),
            Err(refusal) => {
                self.answer(now, Command::Refuse { to: ReplyTo::alone(reply), id: question.id, refusal });
            }
        }
    }

    pub(crate) fn refuse_invalid(&mut self, to: ReplyTo, id: Option<&PermitId>, message: String) {
        self.refuse(to, id, Code::InvalidRequest, message);
    }

    pub(crate) fn refuse(&mut self, to: ReplyTo, id: Option<&PermitId>, code: Code, message: String) {
        self.tally.refusals.count(code);
        self.outbox.answer(to, &refusal(id.map(PermitId::as_str), code, message, self.core.epoch()));
    }
}

/// For how long, in milliseconds, the sender of a request has not been waiting any more, if that
/// is certain in spite of clocks that differ: it was held back while disconnected.
fn forgotten_for(request: &PermitRequest<'_>) -> Option<u64> {
    let (sent, most) = (request.sent_unix_ms?, request.max_wait_ms?);
    let given_up = sent as f64 + most.span().millis() + CLOCK_TOLERANCE.millis();
    let late = unix_ms() as f64 - given_up;
    (late > 0.0).then_some(late as u64)
}

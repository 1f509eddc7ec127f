//! What became of permits: from a payload to events of the core.

use crate::log_throttle::LogThrottle;
use crate::messages::inbound::Address;
use crate::messages::message_trace::MessageTrace;
use crate::messages::reply::ReplyTo;
use crate::permits::answers::core_driver::CoreDriver;
use crate::permits::incoming::permit_requests::in_trace;
use crate::permits::incoming::response_reader::ResponseReader;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::incoming::{Incoming, Invalid};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::adaptation::observation::Observation;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::wire;

/// Takes the settles that came in at one time.
pub(crate) struct Settles<'a> {
    now: Time,
    core: &'a mut CoreDriver,
    responses: &'a mut ResponseReader,
    log: &'a mut LogThrottle,
}

impl<'a> Settles<'a> {
    pub(crate) fn at(
        now: Time,
        core: &'a mut CoreDriver,
        responses: &'a mut ResponseReader,
        log: &'a mut LogThrottle,
    ) -> Self {
        Settles { now, core, responses, log }
    }

    /// Takes a message.
    pub(crate) fn take(mut self, reply: Option<Address>, payload: &[u8], trace: Option<&MessageTrace>) {
        match Incoming::<Settle>::parse(payload) {
            Incoming::One(settle) => self.take_one(reply.map(ReplyTo::alone), settle, (trace, 0)),
            Incoming::Many(settles) => {
                let array = reply.map(|reply| self.core.delivery().outbox().begin_array(reply));
                for (index, settle) in settles.into_iter().enumerate() {
                    let to = array.map(|array| self.core.delivery().outbox().place(array));
                    self.take_one(to, settle, (trace, index));
                }
                array.into_iter().for_each(|array| self.core.delivery().outbox().end_array(array));
            }
        }
    }

    fn take_one(
        &mut self,
        to: Option<ReplyTo>,
        settle: Result<Settle<'_>, Invalid>,
        trace: (Option<&MessageTrace>, usize),
    ) {
        match settle {
            Ok(settle) => {
                let trace = self.core.trace_of_settle(&settle, trace);
                let _logged = trace.map(|trace| in_trace(trace.context()));
                trace.into_iter().for_each(|trace| self.core.note_settled(self.now, &trace, &settle));
                let observation = self.observe(&settle);
                let settle = wire::settle(self.core.scheduler(), to, &settle, observation);
                self.core.handle(self.now, Event::Settle(settle));
            }
            Err(invalid) => {
                if let Some(left_out) = self.log.admit(self.now, "wrong settles") {
                    tracing::warn!(reason = %invalid, left_out, "a settle is not of the protocol");
                }
                self.core.tally().refused_settles.count(Code::InvalidRequest);
                if let Some(to) = to {
                    self.core.refuse_invalid(to, invalid.id.as_ref(), invalid.to_string());
                }
            }
        }
    }

    /// What the upstream's response says about its limits.
    fn observe(&mut self, settle: &Settle<'_>) -> Option<Observation> {
        let response = settle.response()?;
        if response.is_throttled()
            && let Some(left_out) = self.log.admit(self.now, "429")
        {
            let retry_after = response.headers.get("retry-after");
            tracing::warn!(id = %settle.id, retry_after, left_out, "the upstream answered 429");
        }
        Some(self.responses.read(self.now, (self.core.tally(), self.log), &settle.id, response))
    }
}

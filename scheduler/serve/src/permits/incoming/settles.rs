//! Parses settles, and passes them to the core.

use crate::messages::inbound::Address;
use crate::messages::message_trace::{ElementTrace, MessageTrace};
use crate::messages::reply::ReplyTo;
use crate::permits::incoming::permit_requests::{COMMON_INBOX, in_trace};
use crate::permits::permit_loop::PermitLoop;
use bytes::Bytes;
use rampmeter_policy::observation::{Observation, Verdict};
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::incoming::{Incoming, Invalid};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::wire;

/// The hint for a header that can't be read.
const UNREADABLE: &str = "is it another `dialect`, or one for [resource.headers]?";

impl PermitLoop {
    pub(crate) fn settle(&mut self, now: Time, reply: Option<Address>, payload: &[u8], trace: Option<&MessageTrace>) {
        let user = reply.as_ref().and_then(Address::user).map(str::to_owned).filter(|user| user != COMMON_INBOX);
        let of = |index| (user.as_deref(), ElementTrace { message: trace, index });
        let (reply, briefly) = reply.map_or((None, None), Address::answered_in_full);
        // What follows from the settle, such as the grant of its place, leaves behind this.
        briefly.into_iter().for_each(|to| self.driver.outbox.send_text(to, Bytes::new()));
        match Incoming::<Settle>::parse(payload) {
            Incoming::One(settle) => self.settle_one(now, reply.map(ReplyTo::alone), settle, of(0)),
            Incoming::Many(settles) => {
                let array = reply.map(|reply| self.driver.outbox.begin_array(reply));
                for (index, settle) in settles.into_iter().enumerate() {
                    let to = array.map(|array| self.driver.outbox.place(array));
                    self.settle_one(now, to, settle, of(index));
                }
                array.into_iter().for_each(|array| self.driver.outbox.end_array(array));
            }
        }
    }

    fn settle_one(
        &mut self,
        now: Time,
        to: Option<ReplyTo>,
        settle: Result<Settle<'_>, Invalid>,
        (user, trace): (Option<&str>, ElementTrace<'_>),
    ) {
        match settle {
            Ok(settle) => {
                let trace = self.driver.traces.of_settle(&settle, trace);
                let _logged = trace.map(|trace| in_trace(trace.context()));
                if let Some(trace) = &trace {
                    self.driver.note_settled(now, trace, &settle);
                }
                let observation = self.observe(now, &settle);
                let status = settle.response().map_or(0, |response| response.status);
                let settle = wire::settle(self.driver.core(), to, &settle, observation);
                self.driver.settle(now, settle, status, user);
            }
            Err(invalid) => {
                if let Some(left_out) = self.log.admit(now, "wrong settles") {
                    tracing::warn!(reason = %invalid, left_out, "a settle is not of the protocol");
                }
                self.driver.tally.refused_settles.count(Code::InvalidRequest);
                if let Some(to) = to {
                    self.driver.refuse_invalid(now, to, invalid.id.as_ref(), invalid.to_string());
                }
            }
        }
    }

    /// Reads and counts what a response states about limits. As unreadable headers often recur, their log is throttled.
    fn observe(&mut self, now: Time, settle: &Settle<'_>) -> Option<Observation> {
        let (response, id) = (settle.response()?, &settle.id);
        let read = self.upstream.reader.read(response, unix_ms());
        // What pauses a limit has a line of its own.
        let pauses = matches!(read.observation.verdict, Verdict::Limited { .. } | Verdict::Exhausted { .. });
        if response.is_throttled()
            && !(pauses && self.driver.core().knows(id))
            && let Some(left_out) = self.log.admit(now, "429")
        {
            let resource = self.driver.core().resource().name();
            tracing::warn!(%resource, %id, left_out, "the upstream answered 429, which pauses no limit");
        }
        self.driver.tally.answers.count(response.status);
        for header in read.unreadable {
            let value = response.headers.get(&header).unwrap_or_default();
            if let Some(left_out) = self.log.admit(now, "unreadable headers") {
                tracing::warn!(header, value, left_out, "a header of the upstream's can't be read: {UNREADABLE}");
            }
            self.driver.tally.unreadable.note(header, value);
        }
        let Observation { verdict, readings, spent } = &read.observation;
        tracing::debug!(%id, status = response.status, ?verdict, ?readings, ?spent, "the upstream answered");
        Some(read.observation)
    }
}

//! Messages that wait to be sent to one resource's scheduler.

pub(super) mod payload;
pub(super) mod retries;

use super::asks::unsent::{MessageGroup, Unsent};
use super::numbers::{AskNumber, ResourceNumber};
use super::silence::backoff::Backoff;
use super::silence::known_schedulers::KnownSchedulers;
use payload::ArrayPayload;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::Time;
use rampmeter_protocol::trace_context::TraceContexts;
use std::collections::VecDeque;

/// How many settles wait while no scheduler takes them. Above this the oldest is dropped. Its
/// permit counts as used at its estimated cost, which is safe.
const MAX_SETTLES: usize = 65_536;

/// The messages for one resource.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// What is known of the schedulers that read them.
    pub(super) schedulers: KnownSchedulers,
    pub(super) backoff: Backoff,
    /// When something was last sent again.
    pub(super) resent: Time,
    /// Asks that were sent before.
    again: Unsent,
    /// Asks that were never sent.
    fresh: Unsent,
    settles: VecDeque<Settle<'static>>,
}

impl Outbox {
    pub(super) fn settle(&mut self, settle: Settle<'static>) {
        if self.settles.len() == MAX_SETTLES {
            self.settles.pop_front();
        }
        self.settles.push_back(settle);
    }

    /// Adds an ask that is to be sent.
    pub(super) fn enter(&mut self, number: AskNumber, was_sent: bool, group: MessageGroup) {
        let asks = if was_sent { &mut self.again } else { &mut self.fresh };
        asks.insert(number, group);
    }

    pub(super) fn leave(&mut self, number: AskNumber) {
        self.again.remove(number);
        self.fresh.remove(number);
    }

    pub(super) fn has_resends(&self) -> bool {
        !self.again.is_empty()
    }

    /// The group of the next message. Resends go first, if `again` allows them.
    pub(super) fn next_group(&self, again: bool) -> MessageGroup {
        let resend = if again { self.again.oldest_group() } else { None };
        resend.or_else(|| self.fresh.oldest_group()).cloned().unwrap_or_default()
    }

    /// The ask to be sent next in a message of `group`. Resends go first, if `again` allows them.
    pub(super) fn next(&mut self, again: bool, group: &MessageGroup) -> Option<AskNumber> {
        let resend = if again { self.again.pop(group) } else { None };
        resend.or_else(|| self.fresh.pop(group))
    }

    /// When the next message may be sent, if one waits. `budget` is when the next resend may be
    /// sent.
    pub(super) fn opens(&self, budget: Time) -> Option<Time> {
        let is_free = !self.fresh.is_empty() || !self.settles.is_empty();
        let from = if is_free { Time::ORIGIN } else { budget };
        (is_free || self.has_resends()).then(|| self.backoff.until().max(from))
    }

    pub(super) fn open(&mut self) {
        self.backoff.hold_until(Time::ORIGIN);
    }

    /// The settles of one message.
    pub(super) fn take_settles(&mut self) -> Option<(Vec<u8>, TraceContexts)> {
        let mut array = ArrayPayload::default();
        while !array.is_full() {
            let Some(settle) = self.settles.pop_front() else { break };
            array.push_traced(&settle, settle.trace);
        }
        (!array.is_empty()).then(|| array.finish_traced())
    }
}

/// The outbox of a resource that has one, while the rest of the session is borrowed.
pub(super) fn outbox_of(outboxes: &mut [Outbox], resource: ResourceNumber) -> &mut Outbox {
    &mut outboxes[resource.0 as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::id::PermitId;

    #[test]
    fn the_oldest_settle_is_dropped_at_the_bound() {
        let mut outbox = Outbox::default();
        for serial in 0..=MAX_SETTLES as u64 {
            outbox.settle(Settle::used(PermitId::secret(serial.into())));
        }
        assert_eq!(outbox.settles.len(), MAX_SETTLES);
        assert_eq!(outbox.settles[0].id, PermitId::secret(1));
    }
}

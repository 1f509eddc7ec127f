//! Messages that wait to be sent to one resource's scheduler.

pub(super) mod payload;
pub(super) mod retries;
pub(super) mod settles;

use super::asks::unsent::{MessageGroup, Unsent};
use super::numbers::{AskNumber, ResourceNumber};
use super::silence::backoff::Backoff;
use super::silence::known_schedulers::KnownSchedulers;
use rampmeter_protocol::time::Time;
use settles::Settles;

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
    pub(super) settles: Settles,
}

impl Outbox {
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
}

/// The outbox of a resource that has one, while the rest of the session is borrowed.
pub(super) fn outbox_of(outboxes: &mut [Outbox], resource: ResourceNumber) -> &mut Outbox {
    &mut outboxes[resource.0 as usize]
}

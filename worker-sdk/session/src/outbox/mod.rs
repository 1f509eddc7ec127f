//! Messages to be sent to one resource's scheduler.

pub(super) mod payload;
pub(super) mod retries;
pub(super) mod settles;

use super::event::{AskNumber, ResourceNumber};
use super::silence::backoff::Backoff;
use super::silence::known_schedulers::KnownSchedulers;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::Time;
use settles::Settles;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) schedulers: KnownSchedulers,
    pub(super) backoff: Backoff,
    pub(super) resent: Time,
    again: Unsent,
    fresh: Unsent,
    pub(super) settles: Settles,
}

impl Outbox {
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

    /// The next ask of a message of `group`. Resends go first, if `again` allows them.
    pub(super) fn next(&mut self, again: bool, group: &MessageGroup) -> Option<AskNumber> {
        let resend = if again { self.again.pop(group) } else { None };
        resend.or_else(|| self.fresh.pop(group))
    }

    /// When the next message may be sent, if one waits, with resends not before `budget`.
    pub(super) fn opens(&self, budget: Time) -> Option<Time> {
        let is_free = !self.fresh.is_empty() || !self.settles.is_empty();
        let from = if is_free { Time::ORIGIN } else { budget };
        (is_free || self.has_resends()).then(|| self.backoff.until().max(from))
    }

    pub(super) fn open(&mut self) {
        self.backoff.hold_until(Time::ORIGIN);
    }
}

/// Returns the outbox of a resource that has one, while the rest of the session is borrowed.
pub(super) fn outbox_of(outboxes: &mut [Outbox], resource: ResourceNumber) -> &mut Outbox {
    &mut outboxes[resource.0 as usize]
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageGroup {
    /// The class in the subject of the message, if it contains one.
    pub(crate) class: Option<Text<'static>>,
    /// Each ask has a message of its own: a body to price may be as long as a message.
    pub(crate) is_alone: bool,
}

/// Asks by the group of their message, oldest first. No group is empty.
#[derive(Debug, Default)]
pub(crate) struct Unsent(BTreeMap<MessageGroup, BTreeSet<AskNumber>>);

impl Unsent {
    pub(crate) fn insert(&mut self, number: AskNumber, group: MessageGroup) {
        self.0.entry(group).or_default().insert(number);
    }

    pub(crate) fn remove(&mut self, number: AskNumber) {
        self.0.retain(|_, asks| {
            asks.remove(&number);
            !asks.is_empty()
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn oldest_group(&self) -> Option<&MessageGroup> {
        self.0.iter().min_by_key(|(_, asks)| asks.first()).map(|(group, _)| group)
    }

    pub(crate) fn pop(&mut self, group: &MessageGroup) -> Option<AskNumber> {
        let asks = self.0.get_mut(group)?;
        let oldest = asks.pop_first();
        if asks.is_empty() {
            self.0.remove(group);
        }
        oldest
    }
}

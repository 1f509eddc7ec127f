//! Asks that are to be sent.

use crate::numbers::AskNumber;
use rampmeter_protocol::text::Text;
use std::collections::{BTreeMap, BTreeSet};

/// Which asks may travel in one message.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageGroup {
    /// The class that the subject of the message names, if it names one.
    pub(crate) class: Option<Text<'static>>,
    /// Each ask has a message of its own: a body to price may be as long as a message.
    pub(crate) is_alone: bool,
}

/// Asks by the group of their message, and of one group the oldest first.
///
/// No group is without an ask.
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

    /// The group of the oldest ask.
    pub(crate) fn oldest_group(&self) -> Option<&MessageGroup> {
        self.0.iter().min_by_key(|(_, asks)| asks.first()).map(|(group, _)| group)
    }

    /// Takes the oldest ask of `group`.
    pub(crate) fn pop(&mut self, group: &MessageGroup) -> Option<AskNumber> {
        let asks = self.0.get_mut(group)?;
        let oldest = asks.pop_first();
        if asks.is_empty() {
            self.0.remove(group);
        }
        oldest
    }
}

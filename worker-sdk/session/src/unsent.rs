//! Asks that are to be sent.

use super::vocabulary::AskNumber;
use rampmeter_protocol::text::Text;
use std::collections::{BTreeMap, BTreeSet};

/// The class that the subject of a message names, if it names one.
pub(super) type SubjectClass = Option<Text<'static>>;

/// Asks by the class in the subject of their message, and of one class the oldest first.
///
/// No class is without an ask.
#[derive(Debug, Default)]
pub(super) struct Unsent(BTreeMap<SubjectClass, BTreeSet<AskNumber>>);

impl Unsent {
    pub(super) fn insert(&mut self, number: AskNumber, class: SubjectClass) {
        self.0.entry(class).or_default().insert(number);
    }

    pub(super) fn remove(&mut self, number: AskNumber) {
        self.0.retain(|_, asks| {
            asks.remove(&number);
            !asks.is_empty()
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The class of the oldest ask.
    pub(super) fn oldest_class(&self) -> Option<&SubjectClass> {
        self.0.iter().min_by_key(|(_, asks)| asks.first()).map(|(class, _)| class)
    }

    /// Takes the oldest ask of `class`.
    pub(super) fn pop(&mut self, class: &SubjectClass) -> Option<AskNumber> {
        let asks = self.0.get_mut(class)?;
        let oldest = asks.pop_first();
        if asks.is_empty() {
            self.0.remove(class);
        }
        oldest
    }
}

//! Counts by the label that calls carry.

use crate::{Tally, statistics::tally::Outcome};
use std::collections::BTreeMap;

/// The most classes with counts of their own. Labels come from the network, so memory must not grow
/// with them.
pub const MAX_CLASSES: usize = 256;

/// The longest label of a class, for the same reason.
pub const MAX_CLASS_BYTES: usize = 64;

/// The class of calls whose label is too long, not visible ASCII, or beyond [`MAX_CLASSES`].
pub const OTHER_CLASS: &str = "(other)";

/// A tally per class, for a bounded number of classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    tallies: BTreeMap<String, Tally>,
}

impl Classes {
    pub(crate) fn count(&mut self, class: &str, outcome: Outcome) {
        self.tally(class).count(outcome);
    }

    pub(crate) fn tallies(&self) -> &BTreeMap<String, Tally> {
        &self.tallies
    }

    fn tally(&mut self, class: &str) -> &mut Tally {
        let class = if self.has_room_for(class) { class } else { OTHER_CLASS };
        self.tallies.entry(class.to_owned()).or_default()
    }

    fn has_room_for(&self, class: &str) -> bool {
        self.tallies.contains_key(class) || self.named() < MAX_CLASSES && class.len() <= MAX_CLASS_BYTES
    }

    fn named(&self) -> usize {
        self.tallies.len() - usize::from(self.tallies.contains_key(OTHER_CLASS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_after_the_last_one_is_other() {
        let mut classes = Classes::default();
        for number in 0..MAX_CLASSES + 3 {
            classes.count(&format!("class-{number}"), Outcome::Ok);
        }
        classes.count("class-0", Outcome::RateLimited);
        assert_eq!(classes.tallies().len(), MAX_CLASSES + 1);
        assert_eq!(classes.tallies()[OTHER_CLASS].ok, 3);
        assert_eq!(classes.tallies()["class-0"], Tally { ok: 1, rate_limited: 1, bad: 0 });
    }

    #[test]
    fn a_label_that_is_too_long_is_other() {
        let mut classes = Classes::default();
        classes.count(&"x".repeat(MAX_CLASS_BYTES + 1), Outcome::Bad);
        classes.count(&"x".repeat(MAX_CLASS_BYTES), Outcome::Bad);
        assert_eq!(classes.tallies().len(), 2);
        assert_eq!(classes.tallies()[OTHER_CLASS].bad, 1);
    }
}

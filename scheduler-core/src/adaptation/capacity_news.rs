//! When people are told that the upstream has changed capacities.

use crate::ids::LimitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeSet;

/// How often people are told.
const INTERVAL: Span = Span::from_secs(10);

/// Limits whose capacity in force has changed by the upstream's word since people were told.
///
/// Answers that contradict each other fill no log: there is one report in ten seconds.
#[derive(Debug, Default)]
pub(crate) struct CapacityNews {
    changed: BTreeSet<LimitId>,
    next: Time,
}

impl CapacityNews {
    pub(crate) fn note(&mut self, limit: LimitId) {
        self.changed.insert(limit);
    }

    /// The changed limits, if people are to be told now.
    pub(crate) fn take(&mut self, now: Time) -> BTreeSet<LimitId> {
        if self.changed.is_empty() || now < self.next {
            return BTreeSet::new();
        }
        self.next = now + INTERVAL;
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::{CapacityNews, INTERVAL};
    use crate::ids::LimitId;
    use rampmeter_protocol::time::Time;
    use std::collections::BTreeSet;

    #[test]
    fn changes_are_told_once_in_ten_seconds() {
        let mut news = CapacityNews::default();
        assert!(news.take(Time::ORIGIN).is_empty());
        news.note(LimitId(1));
        assert_eq!(news.take(Time::ORIGIN), BTreeSet::from([LimitId(1)]));
        news.note(LimitId(2));
        news.note(LimitId(2));
        assert!(news.take(Time::ORIGIN).is_empty());
        assert_eq!(news.take(Time::ORIGIN + INTERVAL), BTreeSet::from([LimitId(2)]));
    }
}

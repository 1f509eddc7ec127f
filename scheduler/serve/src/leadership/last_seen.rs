//! The latest state record of a resource that this process has seen.

use rampmeter_protocol::time::{Span, Time};
use rampmeter_store::{ClockReading, Revision, StateRecord};
use std::cmp::Ordering;

/// The latest known state. Revisions and epochs only grow; a store that shows lower ones went back.
#[derive(Clone, Debug)]
pub struct LastSeenRecord {
    /// The state record.
    pub record: StateRecord,
    /// Its revision.
    pub revision: Revision,
    /// When this process first knew of the record.
    pub since: Time,
    /// When this process first knew of the term that wrote it.
    pub led_since: Time,
}

impl LastSeenRecord {
    /// Returns whether this record is later than `record` at `revision`. A store that shows an earlier one went back.
    #[must_use]
    pub fn is_later_than(&self, record: &StateRecord, revision: Revision) -> bool {
        match self.record.epoch.cmp(&record.epoch) {
            Ordering::Equal if record.nonce == self.record.nonce => self.record.checkpoint > record.checkpoint,
            Ordering::Equal => self.revision > revision,
            order @ (Ordering::Less | Ordering::Greater) => order == Ordering::Greater,
        }
    }

    /// Returns for how long this record has certainly been stored at `now`, since it was seen or by its own time.
    #[must_use]
    pub fn certainly_there_for(&self, now: Time, moment: &ClockReading, store: Option<Span>) -> Span {
        now.since(self.since).max(self.record.saved.certainly_past(moment, store))
    }
}

/// Notes a record that was read. Returns whether it is later than the known one.
pub fn note(seen: &mut Option<LastSeenRecord>, now: Time, record: StateRecord, revision: Revision) -> bool {
    let known = seen.as_ref();
    let news = known.is_none_or(|known| {
        (known.revision != revision || known.record != record) && !known.is_later_than(&record, revision)
    });
    if news {
        let same_term = known.filter(|known| known.record.nonce == record.nonce);
        let led_since = same_term.map_or(now, |known| known.led_since);
        *seen = Some(LastSeenRecord { record, revision, since: now, led_since });
    }
    news
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rampmeter_protocol::epoch::Epoch;
    use rampmeter_store::{KeysRecord, RulesRevision};

    pub(in crate::leadership) fn record(epoch: u64, nonce: u64, checkpoint: u64) -> StateRecord {
        let saved = ClockReading { unix_ms: 0, boot: None };
        let leader = format!("leader-{nonce}");
        StateRecord {
            epoch: Epoch::new(epoch),
            leader,
            nonce,
            checkpoint,
            released: false,
            successor: None,
            standbys: Vec::new(),
            saved,
            permit_parts: 0,
            levels: Vec::new(),
            keys: KeysRecord::default(),
            freezes: Vec::new(),
            unsettled: Vec::new(),
            discovered: Vec::new(),
            rules_revision: RulesRevision::NONE,
            server: None,
        }
    }

    fn at(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    /// Epoch, nonce, checkpoint and revision of what was seen, and of what is found.
    fn check(seen: (u64, u64, u64, Revision), found: (u64, u64, u64, Revision), went_back: bool) {
        let mut last_seen = None;
        note(&mut last_seen, at(0), record(seen.0, seen.1, seen.2), seen.3);
        let actual = last_seen.unwrap().is_later_than(&record(found.0, found.1, found.2), found.3);
        assert_eq!(actual, went_back, "{seen:?}, then {found:?}");
    }

    #[test]
    fn a_later_record_is_told_from_an_earlier_one() {
        check((7, 1, 3, 40), (7, 1, 4, 41), false);
        check((7, 1, 3, 40), (8, 2, 1, 41), false);
        check((7, 1, 3, 40), (6, 9, 9, 41), true);
        check((7, 1, 3, 40), (7, 1, 2, 40), true);
        check((7, 1, 3, 40), (7, 2, 3, 39), true);
        // The store went back under a leader, which writes on at lower revisions.
        check((7, 1, 3, 40), (7, 1, 4, 12), false);
        // Revisions begin again in a bucket that was made again.
        check((7, 1, 3, 40), (1_795_000_000_000, 5, 0, 1), false);
    }

    #[test]
    fn a_term_has_lasted_since_its_first_checkpoint() {
        let mut seen = None;
        assert!(note(&mut seen, at(0), record(1, 1, 1), 10));
        assert!(note(&mut seen, at(250), record(1, 1, 2), 11));
        assert!(!note(&mut seen, at(300), record(1, 1, 2), 11), "it is known");
        assert!(!note(&mut seen, at(300), record(1, 1, 1), 10), "it is older");
        let last_seen = seen.as_ref().unwrap();
        assert_eq!((last_seen.since, last_seen.led_since), (at(250), at(0)));
        assert!(note(&mut seen, at(400), record(2, 2, 1), 12));
        assert_eq!(seen.unwrap().led_since, at(400));
    }
}

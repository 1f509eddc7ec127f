//! Rate-limits log lines that clients can trigger.

use crate::time::{Span, Time};
use std::collections::BTreeMap;

/// Interval between lines of one kind: an hour-long fault takes sixty lines.
const LOGGED_EVERY: Span = Span::from_secs(60);

/// Admits one line per kind and minute, and counts the others. There must be few kinds.
#[derive(Debug)]
pub struct LogThrottle<Kind = &'static str>(BTreeMap<Kind, LastLogged>);

#[derive(Debug)]
struct LastLogged {
    at: Time,
    left_out: u64,
}

impl<Kind> Default for LogThrottle<Kind> {
    fn default() -> Self {
        LogThrottle(BTreeMap::new())
    }
}

impl<Kind: Clone + Ord> LogThrottle<Kind> {
    /// Returns the number of lines of this kind suppressed since the last one, or suppresses this one (`None`).
    pub fn admit(&mut self, now: Time, kind: Kind) -> Option<u64> {
        let Some(last) = self.0.get_mut(&kind) else {
            self.0.insert(kind, LastLogged { at: now, left_out: 0 });
            return Some(0);
        };
        if now.since(last.at) < LOGGED_EVERY {
            last.left_out += 1;
            return None;
        }
        last.at = now;
        Some(std::mem::take(&mut last.left_out))
    }

    /// Removes the count of suppressed lines of a kind whose last line is a minute old.
    pub fn take_overdue(&mut self, now: Time) -> Option<(Kind, u64)> {
        let is_overdue = |last: &LastLogged| last.left_out > 0 && now.since(last.at) >= LOGGED_EVERY;
        let (kind, last) = self.0.iter_mut().find(|(_, last)| is_overdue(last))?;
        last.at = now;
        Some((kind.clone(), std::mem::take(&mut last.left_out)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time::ORIGIN + Span::from_secs(secs)
    }

    #[test]
    fn a_kind_has_one_line_a_minute_that_says_how_many_were_left_out() {
        let mut log = LogThrottle::default();
        // The second of an event, and the result.
        let table = [
            (0, Some(0)),
            (1, None),
            (59, None),
            (60, Some(2)),
            (60, None),
            (119, None),
            (500, Some(2)),
            (560, Some(0)),
        ];
        for (secs, expected) in table {
            assert_eq!(log.admit(at(secs), "wrong"), expected, "at {secs} s");
        }
        assert_eq!(log.admit(at(560), "other"), Some(0), "a kind of its own");
    }

    #[test]
    fn lines_that_were_left_out_are_told_although_no_more_come() {
        let mut log = LogThrottle::default();
        assert_eq!((0..1024).filter_map(|_| log.admit(at(0), "wrong")).count(), 1);
        assert_eq!(log.take_overdue(at(59)), None);
        assert_eq!(log.take_overdue(at(60)), Some(("wrong", 1023)));
        assert_eq!(log.take_overdue(at(60)), None);
        assert_eq!(log.admit(at(61), "wrong"), None, "a line was written a second ago");
    }
}

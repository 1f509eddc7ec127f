//! How full a bucket has been since a call started.

use crate::credit::Credit;
use rampmeter_protocol::time::Time;

/// Peaks that a bucket remembers. A busy bucket needs a handful; beyond the bound neighbours are
/// merged, which makes a refund smaller, never larger.
const MAX_PEAKS: usize = 256;

/// Levels just before past starts, of which later ones are lower: all that is needed to tell the
/// highest level since any instant.
///
/// A token that was not spent after all is worth something only if the bucket had room for it
/// ever since: what would have run over is lost at the upstream too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peaks(Vec<(Time, Credit)>);

impl Peaks {
    /// Notes that the level was `level` just before a start at `at`, not earlier than any before.
    pub(crate) fn note(&mut self, at: Time, level: Credit) {
        // Of one instant only the highest level is ever asked for.
        if self.0.last().is_some_and(|(last, higher)| *last == at && *higher >= level) {
            return;
        }
        while self.0.last().is_some_and(|(_, lower)| *lower <= level) {
            self.0.pop();
        }
        if self.0.len() == MAX_PEAKS {
            self.merge_older_half();
        }
        if self.0.is_empty() {
            // Most buckets by key need no more.
            self.0.reserve_exact(1);
        }
        self.0.push((at, level));
    }

    /// The highest level noted after `time`.
    pub(crate) fn highest_after(&self, time: Time) -> Option<Credit> {
        self.0.get(self.first_after(time)).map(|(_, level)| *level)
    }

    /// When the level was last at least `level`.
    pub(crate) fn last_at_least(&self, level: Credit) -> Option<Time> {
        let behind = self.0.partition_point(|(_, peak)| *peak >= level);
        self.0[..behind].last().map(|(at, _)| *at)
    }

    /// Raises what was noted after `time`: levels would have been higher.
    pub(crate) fn raise_after(&mut self, time: Time, by: Credit) {
        let first = self.first_after(time);
        self.0[first..].iter_mut().for_each(|(_, level)| *level += by);
        self.drop_overtaken(first);
    }

    fn first_after(&self, time: Time) -> usize {
        self.0.partition_point(|(at, _)| *at <= time)
    }

    /// Restores the order of levels in front of `raised`.
    fn drop_overtaken(&mut self, raised: usize) {
        let Some((_, level)) = self.0.get(raised).copied() else { return };
        let kept = self.0[..raised].partition_point(|(_, higher)| *higher > level);
        self.0.drain(kept..raised);
    }

    /// Of two neighbours stay the later time and the higher level.
    fn merge_older_half(&mut self) {
        let merged = MAX_PEAKS / 4;
        for pair in 0..merged {
            self.0[pair] = (self.0[2 * pair + 1].0, self.0[2 * pair].1);
        }
        self.0.drain(merged..2 * merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::Rate;
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::time::Span;

    fn tokens(count: i128) -> Credit {
        Rate::new(Amount::ONE, Span::from_nanos(1_000_000)).credit_of_micros(count)
    }

    #[test]
    fn the_highest_level_since_an_instant() {
        let mut peaks = Peaks::default();
        for (at, level) in [(1, 9), (2, 5), (3, 7), (4, 3)] {
            peaks.note(Time::from_nanos(at), tokens(level));
        }
        let after = |at| peaks.highest_after(Time::from_nanos(at));
        assert_eq!(after(0), Some(tokens(9)));
        assert_eq!(after(1), Some(tokens(7)));
        assert_eq!(after(3), Some(tokens(3)));
        assert_eq!(after(4), None);
    }

    #[test]
    fn merging_forgets_no_height() {
        let mut peaks = Peaks::default();
        for at in 0..1000 {
            peaks.note(Time::from_nanos(at), tokens(1000 - i128::from(at)));
        }
        assert!(peaks.0.len() <= MAX_PEAKS);
        for since in 0..999 {
            let exact = tokens(1000 - i128::from(since) - 1);
            assert!(peaks.highest_after(Time::from_nanos(since)).unwrap() >= exact, "since {since}");
        }
    }
}

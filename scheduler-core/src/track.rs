//! Where a bucket's level has been.

use crate::credit::Credit;
use crate::limit::Limit;
use rampmeter_protocol::time::Time;

/// Levels that a bucket remembers; the further back, the sparser.
const MAX_LEVELS: usize = 512;

/// Levels right behind past starts, in the order of time, as they look with all that is known now.
///
/// What an upstream says of its bucket is of the past when it is heard: it is compared with the level of that time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track(Vec<(Time, Credit)>);

impl Track {
    pub(crate) const fn new() -> Self {
        Track(Vec::new())
    }

    /// Notes the level right behind a start at `at`, not earlier than any before.
    pub(crate) fn note(&mut self, at: Time, level: Credit) {
        match self.0.last_mut() {
            Some((last, known)) if *last == at => *known = level,
            Some(_) | None => {
                if self.0.len() == MAX_LEVELS {
                    self.thin_out();
                }
                self.0.push((at, level));
            }
        }
    }

    /// The level at `time`, right behind what started until then; none where that is forgotten.
    pub(crate) fn level_at(&self, limit: &Limit, time: Time) -> Option<Credit> {
        let (at, level) = self.0.get(self.first_after(time).checked_sub(1)?)?;
        Some((*level + limit.rate().refill_within(time.since(*at))).min(limit.full()))
    }

    /// Learns that levels from `time` on were off by this much.
    pub(crate) fn shift_from(&mut self, time: Time, by: Credit) {
        let first = self.0.partition_point(|(at, _)| *at < time);
        self.0[first..].iter_mut().for_each(|(_, level)| *level += by);
    }

    fn first_after(&self, time: Time) -> usize {
        self.0.partition_point(|(at, _)| *at <= time)
    }

    /// Every second level of the older half is forgotten.
    fn thin_out(&mut self) {
        let kept = MAX_LEVELS / 4;
        for index in 0..kept {
            self.0[index] = self.0[2 * index + 1];
        }
        self.0.drain(kept..2 * kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{LimitSpec, Margin};
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::name::Name;
    use rampmeter_protocol::time::Span;

    /// A token each millisecond, a thousand at most.
    fn limit() -> Limit {
        let [name, unit] = ["quick", "requests"].map(|name| Name::new(name).unwrap());
        let (capacity, period) = (Amount::new(1000.0).unwrap(), Span::from_secs(1));
        let margin = Margin::Fixed(Amount::ZERO);
        Limit::new(&LimitSpec { margin, ..LimitSpec::new(name, unit, capacity, period) }, &[0])
    }

    fn at(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    fn tokens(count: i128) -> Credit {
        limit().rate().credit_of_micros(count * 1_000_000)
    }

    #[test]
    fn a_level_of_the_past_has_refilled_since_the_start_before_it() {
        let mut track = Track::default();
        track.note(at(10), tokens(100));
        track.note(at(30), tokens(90));
        track.shift_from(at(20), tokens(-5));
        for (time, level) in [(9, None), (10, Some(100)), (15, Some(105)), (30, Some(85)), (2000, Some(1000))] {
            assert_eq!(track.level_at(&limit(), at(time)), level.map(tokens), "at {time}");
        }
    }

    #[test]
    fn the_further_back_the_sparser() {
        let mut track = Track::default();
        for millis in 0..10_000 {
            track.note(at(millis), tokens(i128::from(millis)));
            assert!(track.0.len() <= MAX_LEVELS);
        }
        assert!(track.level_at(&limit(), at(9_000)).is_some(), "twice as far back as there is room for each");
    }
}

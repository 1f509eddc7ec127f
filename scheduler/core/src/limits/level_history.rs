//! The past levels that a bucket remembers.

use rampmeter_policy::Limit;
use rampmeter_policy::arithmetic::Credit;
use rampmeter_protocol::time::Time;

type Point = (Time, Credit);

/// The largest number of high-water marks of a bucket; a busy one needs a handful. Beyond it,
/// neighbours are merged, which makes a refund smaller, never larger.
const MAX_PEAKS: usize = 256;
const MAX_RECORDED: usize = 32;
/// The largest number of values remembered for a limit without keys; older ones are thinned out.
pub(crate) const MAX_LEVELS: usize = 512;
/// The largest number of values remembered for a key, as there are many keys.
pub(crate) const MAX_FEW: usize = 64;

/// Levels right before past starts, each higher than all later ones: the peaks since any time. A
/// refund is worth only the room that the bucket has had ever since the start: the upstream has
/// lost everything that would have run over.
#[derive(Clone, Debug, Default)]
pub(crate) struct HighWaterMarks(Vec<Point>);

impl HighWaterMarks {
    /// Notes the level right before a start at `at`, which is not before any noted one.
    pub(crate) fn note(&mut self, at: Time, level: Credit) {
        // For one instant, only the highest level is needed.
        if self.0.last().is_some_and(|(last, higher)| *last == at && *higher >= level) {
            return;
        }
        while self.0.last().is_some_and(|(_, lower)| *lower <= level) {
            self.0.pop();
        }
        push(&mut self.0, MAX_PEAKS, (at, level), |(_, higher), (later, _)| (later, higher));
    }

    /// Returns the marks with this level at `now`, for a successor. The earliest beyond
    /// [`MAX_RECORDED`] count as one that was as high as the first of them and as late as the last.
    pub(crate) fn marks_for_successor(&self, now: Time, level: Credit) -> Vec<Point> {
        let mut marks = self.clone();
        marks.note(now, level);
        let (early, late) = marks.0.split_at(marks.0.len().saturating_sub(MAX_RECORDED));
        let merged = early.first().zip(early.last()).map(|((_, highest), (last, _))| (*last, *highest));
        merged.into_iter().chain(late.iter().copied()).collect()
    }

    pub(crate) fn highest_after(&self, time: Time) -> Option<Credit> {
        self.0.get(first_after(&self.0, time)).map(|(_, level)| *level)
    }

    pub(crate) fn last_at_least(&self, level: Credit) -> Option<Time> {
        let behind = self.0.partition_point(|(_, peak)| *peak >= level);
        self.0[..behind].last().map(|(at, _)| *at)
    }

    /// Raises the levels noted after `time` by a refund.
    pub(crate) fn raise_after(&mut self, time: Time, by: Credit) {
        let raised = first_after(&self.0, time);
        self.0[raised..].iter_mut().for_each(|(_, level)| *level += by);
        let Some((_, highest)) = self.0.get(raised).copied() else { return };
        let kept = self.0[..raised].partition_point(|(_, level)| *level > highest);
        self.0.drain(kept..raised);
    }
}

/// Levels right after past starts, in the order of time, with all later corrections, for comparison
/// with reports of the upstream on past times.
#[derive(Clone, Debug)]
pub(crate) struct LevelHistory {
    points: Vec<Point>,
    pub(crate) most: usize,
}

impl LevelHistory {
    pub(crate) const fn of(most: usize) -> Self {
        LevelHistory { points: Vec::new(), most }
    }

    /// Returns the last value noted until `time`; `None` if that is forgotten.
    pub(crate) fn noted_at(&self, time: Time) -> Option<Credit> {
        self.points.get(first_after(&self.points, time).checked_sub(1)?).map(|(_, noted)| *noted)
    }

    pub(crate) fn noted_before(&self, time: Time) -> Option<Credit> {
        self.points.get(self.points.partition_point(|(at, _)| *at < time).checked_sub(1)?).map(|(_, noted)| *noted)
    }

    /// Notes the level right after a start at `at`, which is not before any noted one.
    pub(crate) fn note(&mut self, at: Time, level: Credit) {
        self.points.pop_if(|(last, _)| *last == at);
        push(&mut self.points, self.most, (at, level), |_, later| later);
    }

    /// Returns the level at `time` after all starts until `last_start`, unless that is forgotten.
    pub(crate) fn level_at(&self, limit: &Limit, last_start: Time, time: Time) -> Option<Credit> {
        let (at, level) = self.points.get(first_after(&self.points, last_start).checked_sub(1)?)?;
        Some((*level + limit.rate().refill_within(time.since(*at))).min(limit.full()))
    }

    pub(crate) fn shift_from(&mut self, time: Time, by: Credit) {
        let first = self.points.partition_point(|(at, _)| *at < time);
        self.points[first..].iter_mut().for_each(|(_, level)| *level += by);
    }
}

/// Appends a point. At `most` points, pairs of the older half are merged first.
fn push(points: &mut Vec<Point>, most: usize, point: Point, merged: impl Fn(Point, Point) -> Point) {
    if points.len() >= most {
        let pairs = most / 4;
        (0..pairs).for_each(|pair| points[pair] = merged(points[2 * pair], points[2 * pair + 1]));
        points.drain(pairs..2 * pairs);
    }
    if points.is_empty() {
        // Most buckets of keys need no more.
        points.reserve_exact(1);
    }
    points.push(point);
}

fn first_after(points: &[Point], time: Time) -> usize {
    points.partition_point(|(at, _)| *at <= time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::time::Span;

    #[test]
    fn a_successor_learns_of_few_marks_and_of_no_lower_level() {
        let at = |number: u64| Time::ORIGIN + Span::from_millis(number);
        let credit = |number: u64| Credit::INFINITE.divided_by(1 << 20).times(number);
        let mut marks = HighWaterMarks::default();
        (0..100).for_each(|number| marks.note(at(number), credit(1000 - number)));
        let mut told = HighWaterMarks::default();
        let recorded = marks.marks_for_successor(at(100), credit(5));
        assert_eq!(recorded.len(), MAX_RECORDED + 1);
        recorded.into_iter().for_each(|(at, level)| told.note(at, level));
        for time in 0..99 {
            assert!(told.highest_after(at(time)) >= marks.highest_after(at(time)), "{time}");
        }
        assert_eq!(told.highest_after(at(99)), Some(credit(5)));
    }

    #[test]
    fn beyond_the_bound_older_levels_are_thinned_out() {
        for most in [MAX_FEW, MAX_LEVELS] {
            let mut history = LevelHistory::of(most);
            let at = |number: u64| Time::ORIGIN + Span::from_millis(number);
            (0..10_000).for_each(|number| history.note(at(number), Credit::ZERO));
            assert!((most / 2..=most).contains(&history.points.len()), "{} of {most}", history.points.len());
            let last = 10_000 - most as u64 / 4;
            assert_eq!(history.noted_at(at(last)), Some(Credit::ZERO), "the latest levels are known");
        }
    }
}

//! What a bucket remembers of its level.

use crate::arithmetic::Credit;
use crate::policy::Limit;
use rampmeter_protocol::time::Time;

/// A level at some time.
type Point = (Time, Credit);

/// High-water marks that a bucket remembers. A busy bucket needs a handful; beyond the bound neighbours are merged, which makes a refund smaller,
/// never larger.
const MAX_PEAKS: usize = 256;
/// Levels that a bucket remembers; the further back, the sparser.
const MAX_LEVELS: usize = 512;

/// Levels just before past starts, of which later ones are lower: all that is needed to tell the highest level since any instant.
///
/// A token that was not spent after all is worth something only if the bucket had room for it ever since: what would have run over is
/// lost at the upstream too.
#[derive(Clone, Debug, Default)]
pub(crate) struct HighWaterMarks(Vec<Point>);

impl HighWaterMarks {
    /// Notes that the level was `level` just before a start at `at`, not earlier than any before.
    pub(crate) fn note(&mut self, at: Time, level: Credit) {
        // Of one instant only the highest level is ever asked for.
        if self.0.last().is_some_and(|(last, higher)| *last == at && *higher >= level) {
            return;
        }
        while self.0.last().is_some_and(|(_, lower)| *lower <= level) {
            self.0.pop();
        }
        push(&mut self.0, MAX_PEAKS, (at, level), |(_, higher), (later, _)| (later, higher));
    }

    /// The highest level noted after `time`.
    pub(crate) fn highest_after(&self, time: Time) -> Option<Credit> {
        self.0.get(first_after(&self.0, time)).map(|(_, level)| *level)
    }

    /// When the level was last at least `level`.
    pub(crate) fn last_at_least(&self, level: Credit) -> Option<Time> {
        let behind = self.0.partition_point(|(_, peak)| *peak >= level);
        self.0[..behind].last().map(|(at, _)| *at)
    }

    /// Raises what was noted after `time`: levels would have been higher.
    pub(crate) fn raise_after(&mut self, time: Time, by: Credit) {
        let raised = first_after(&self.0, time);
        self.0[raised..].iter_mut().for_each(|(_, level)| *level += by);
        let Some((_, highest)) = self.0.get(raised).copied() else { return };
        let kept = self.0[..raised].partition_point(|(_, level)| *level > highest);
        self.0.drain(kept..raised);
    }
}

/// Levels right behind past starts, in the order of time, as they look with all that is known now.
///
/// What an upstream says of its bucket is of the past when it is heard: it is compared with the level of that time.
#[derive(Clone, Debug, Default)]
pub(crate) struct LevelHistory(Vec<Point>);

impl LevelHistory {
    pub(crate) const fn new() -> Self {
        LevelHistory(Vec::new())
    }

    /// Notes the level right behind a start at `at`, not earlier than any before.
    pub(crate) fn note(&mut self, at: Time, level: Credit) {
        self.0.pop_if(|(last, _)| *last == at);
        push(&mut self.0, MAX_LEVELS, (at, level), |_, later| later);
    }

    /// The level at `time`, right behind what started until then; none where that is forgotten.
    pub(crate) fn level_at(&self, limit: &Limit, time: Time) -> Option<Credit> {
        let (at, level) = self.0.get(first_after(&self.0, time).checked_sub(1)?)?;
        Some((*level + limit.rate().refill_within(time.since(*at))).min(limit.full()))
    }

    /// Learns that levels from `time` on were off by this much.
    pub(crate) fn shift_from(&mut self, time: Time, by: Credit) {
        let first = self.0.partition_point(|(at, _)| *at < time);
        self.0[first..].iter_mut().for_each(|(_, level)| *level += by);
    }
}

/// Adds a point behind all others. Of `most` points, each two of the older half are made one first.
fn push(points: &mut Vec<Point>, most: usize, point: Point, merged: impl Fn(Point, Point) -> Point) {
    if points.len() == most {
        let pairs = most / 4;
        (0..pairs).for_each(|pair| points[pair] = merged(points[2 * pair], points[2 * pair + 1]));
        points.drain(pairs..2 * pairs);
    }
    if points.is_empty() {
        // Most buckets by key need no more.
        points.reserve_exact(1);
    }
    points.push(point);
}

fn first_after(points: &[Point], time: Time) -> usize {
    points.partition_point(|(at, _)| *at <= time)
}

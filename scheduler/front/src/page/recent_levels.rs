//! The levels of a resource in the last ten minutes.

use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::Status;
use rampmeter_protocol::time::{Span, Time};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;

const REMEMBERED: Span = Span::from_secs(600);
/// Bound on the samples of that time, one in five seconds, which is enough for a curve.
pub(super) const MAX_SAMPLES: usize = 120;

/// The last samples of a resource, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RecentLevels(VecDeque<LevelSample>);

#[derive(Debug)]
struct LevelSample {
    at: Time,
    /// Shared with the sample before, unless the limits have changed.
    limits: Arc<[Name]>,
    levels: Vec<f32>,
    waiting: u64,
    granted: u64,
    upstream_429: u64,
}

/// The levels of one limit over time. All lists have the same length, the oldest value first.
#[derive(Debug, Default, Serialize)]
pub(super) struct LevelCurve {
    ages_s: Vec<f64>,
    /// `None` where the limit did not exist.
    levels: Vec<Option<f32>>,
    waiting: Vec<u64>,
    granted: Vec<u64>,
    upstream_429: Vec<u64>,
}

impl RecentLevels {
    pub(super) fn note(&mut self, now: Time, status: &Status) {
        while self.0.len() >= MAX_SAMPLES || self.0.front().is_some_and(|first| now.since(first.at) > REMEMBERED) {
            self.0.pop_front();
        }
        let names = status.limits.iter().map(|limit| &limit.name);
        let limits = match self.0.back() {
            Some(last) if last.limits.iter().eq(names.clone()) => last.limits.clone(),
            Some(_) | None => names.cloned().collect(),
        };
        self.0.push_back(LevelSample {
            at: now,
            limits,
            levels: status.limits.iter().map(|limit| limit.level as f32).collect(),
            waiting: status.classes.iter().map(|class| class.queued).sum(),
            granted: status.counters.granted,
            upstream_429: status.counters.upstream_429,
        });
    }

    pub(super) fn curve(&self, now: Time, limit: &str) -> LevelCurve {
        let mut curve = LevelCurve::default();
        for sample in &self.0 {
            let place = sample.limits.iter().position(|name| &**name == limit);
            curve.ages_s.push(now.since(sample.at).secs().round());
            curve.levels.push(place.and_then(|place| sample.levels.get(place)).copied());
            curve.waiting.push(sample.waiting);
            curve.granted.push(sample.granted);
            curve.upstream_429.push(sample.upstream_429);
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(limits: &[(&str, f64)]) -> Status {
        let limit = |(name, level): &(&str, f64)| {
            serde_json::json!({"name": name, "unit": "requests", "algorithm": "token-bucket", "capacity": 10.0,
                "period_ms": 1000.0, "margin": 0.0, "level": level, "next_free_ms": 0.0, "keys": 1, "frozen_ms": 0.0})
        };
        let limits: Vec<_> = limits.iter().map(limit).collect();
        serde_json::from_value(serde_json::json!({"resource": "hub", "epoch": 1, "leader": "a", "limits": limits,
            "classes": [{"name": "bulk", "queued": 2, "oldest_ms": 1.0}, {"name": "urgent", "queued": 1, "oldest_ms": 1.0}],
            "counters": {"granted": 5, "refused": 0, "settled": 0, "upstream_429": 1, "returned": 0}}))
        .unwrap()
    }

    fn at(secs: u64) -> Time {
        Time::ORIGIN + Span::from_secs(secs)
    }

    #[test]
    fn a_curve_begins_where_its_limit_does() {
        let mut recent = RecentLevels::default();
        recent.note(at(0), &status(&[("few", 3.0)]));
        recent.note(at(5), &status(&[("other", 1.0), ("few", 2.0)]));
        let curve = recent.curve(at(7), "other");
        assert_eq!((curve.ages_s, curve.levels), (vec![7.0, 2.0], vec![None, Some(1.0)]));
        assert_eq!(recent.curve(at(7), "few").levels, [Some(3.0), Some(2.0)]);
        assert_eq!((curve.waiting, curve.granted, curve.upstream_429), (vec![3, 3], vec![5, 5], vec![1, 1]));
    }

    #[test]
    fn ten_minutes_are_remembered() {
        let mut recent = RecentLevels::default();
        for tenth in 0..10_000 {
            recent.note(at(tenth), &status(&[("few", 3.0)]));
        }
        assert_eq!(recent.0.len(), MAX_SAMPLES);
        recent.note(at(20_000), &status(&[("few", 3.0)]));
        assert_eq!(recent.0.len(), 1);
    }
}

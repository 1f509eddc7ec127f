//! Usage by blocks of time, as a successor and another limit take it over.

use super::{CountedBucket, CountedCall};
use crate::arithmetic::{Credit, StartCost};
use crate::limits::usage::{MAX_BLOCKS, UsageBlock, condensed};
use crate::policy::Limit;
use rampmeter_protocol::time::{Span, Time};

impl CountedBucket {
    /// The same usage under another limit. Past usage counts for the longer of its times under
    /// both.
    pub(crate) fn recast(&self, now: Time, from: &Limit, to: &Limit) -> Self {
        let up = |credit| to.rate().credit_of_micros(i128::from(from.rate().micros_up(credit)));
        let longer = from.counts_longer_as(to);
        let anonymous = self.anonymous(from, longer.unwrap_or(Span::ZERO));
        let blocks = condensed(anonymous.blocks(from, None)).into_iter();
        let blocks: Vec<UsageBlock> = blocks.map(|block| UsageBlock { credit: up(block.credit), ..block }).collect();
        let reports =
            self.reports.as_ref().and_then(|reports| reports.phase_alone(now, to.spec().period)).map(Box::new);
        let mut recast =
            CountedBucket { last_end: self.last_end, ..CountedBucket::from_blocks(to, now, &blocks, reports) };
        for (key, CountedCall { cost, tier, until, .. }) in &self.calls {
            let window = recast.windows(to).map(|windows| windows.window(key.at));
            let until = window.map_or(*until + longer.unwrap_or(Span::ZERO), |window| window.ends);
            recast.commit_until(to, *key, StartCost { credit: up(*cost), tier: *tier }, until);
        }
        if let (Some(longer), Some(last)) = (longer, self.last_end) {
            // Usage that counts again is unknown. It is at most what the former limit can have
            // admitted.
            let most = from.full().times(longer.nanos().div_ceil(from.spec().period.nanos()).saturating_add(1));
            let unknown = up(most.min(from.rate().credit(to.spec().capacity))) - recast.total;
            recast.add_usage(to, now, last + longer, unknown.max(Credit::ZERO));
        }
        recast
    }

    /// Anonymous usage alone, which lasts `longer` than before.
    pub(super) fn anonymous(&self, limit: &Limit, longer: Span) -> Self {
        let mut anonymous = self.clone();
        for key in self.calls.keys() {
            anonymous.remove_call(limit, *key);
        }
        for (end, change) in anonymous.steps.clone() {
            anonymous.add_usage(limit, end, end + longer, (-change).max(Credit::ZERO));
        }
        anonymous
    }

    /// Usage by time, and by window, if all listed calls hold at least until `renewed`.
    pub(super) fn blocks(&self, limit: &Limit, renewed: Option<Time>) -> Vec<UsageBlock> {
        let mut blocks = Vec::new();
        let (mut from, mut used) = (self.now, self.total);
        for (until, change) in self.steps_renewed(renewed) {
            while let Some(windows) = self.windows(limit).filter(|_| used > Credit::ZERO && blocks.len() < MAX_BLOCKS)
                && let ends = windows.window(from).ends
                && ends < until
            {
                blocks.push(UsageBlock { from, until: ends, credit: used });
                from = ends;
            }
            blocks.push(UsageBlock { from, until, credit: used });
            (from, used) = (until.max(from), used + change);
        }
        blocks.retain(|block| block.credit > Credit::ZERO && block.from < block.until);
        blocks
    }

    /// The changes until the end of time, if all listed calls hold at least until `renewed`.
    fn steps_renewed(&self, renewed: Option<Time>) -> Vec<(Time, Credit)> {
        let mut steps: Vec<(Time, Credit)> = self.steps.iter().map(|(time, change)| (*time, *change)).collect();
        if let Some(end) = renewed {
            let known = steps.len();
            let earlier = self.calls.values().filter(|call| call.until < end);
            steps.extend(earlier.map(|call| (call.until, call.cost)));
            let longer = steps[known..].iter().fold(Credit::ZERO, |sum, (_, cost)| sum + *cost);
            steps.push((end, -longer));
            steps.sort_by_key(|(time, _)| *time);
        }
        steps.push((Time::NEVER, Credit::ZERO));
        steps
    }
}

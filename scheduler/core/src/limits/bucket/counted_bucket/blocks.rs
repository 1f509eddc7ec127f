//! Usage as blocks of time, in which a successor or a changed limit takes it over.
//!
//! Of calls in flight that a predecessor granted, this scheduler knows the number of places and the
//! ends of their leases. The settle of an unknown call frees one of them: the one whose lease ends
//! first, among those that have begun. So there are never fewer places left than calls that still
//! hold one, whichever place each call had.

use crate::limits::bucket::counted_bucket::{CountedBucket, CountedCall};
use crate::limits::pending_debits::DebitSnapshot;
use crate::limits::timeline::StartKey;
use crate::limits::usage::{BucketRecord, CountedUsage, MAX_BLOCKS, RecordTimes, UsageBlock, condensed, to_spans};
use crate::limits::windows::UpstreamReports;
use rampmeter_policy::Limit;
use rampmeter_policy::arithmetic::{Credit, StartCost};
use rampmeter_protocol::time::{Span, Time};

impl CountedBucket {
    /// Creates a bucket with anonymous usage, which may have begun a moment ago.
    pub(crate) fn new(limit: &Limit, now: Time, level: Credit) -> Self {
        CountedBucket::used_until(limit, now, now, limit.full() - level)
    }

    pub(crate) fn empty_until(limit: &Limit, now: Time, empty: Time) -> Self {
        CountedBucket::used_until(limit, now, empty, limit.full())
    }

    fn used_until(limit: &Limit, now: Time, last: Time, credit: Credit) -> Self {
        let until = CountedBucket::default().counted_until(limit, last);
        CountedBucket::from_blocks(limit, now, &[UsageBlock { from: now, until, credit }], None)
    }

    /// Continues the bucket of `record`, at its level if a token bucket has recorded no usage.
    pub(crate) fn from_record(limit: &Limit, then: Time, record: &BucketRecord) -> Self {
        match &record.usage {
            Some(usage) => CountedBucket::restored(limit, then, usage),
            None => CountedBucket::new(limit, then, limit.rate().credit_of_micros(record.micros)),
        }
    }

    fn restored(limit: &Limit, then: Time, usage: &CountedUsage) -> Self {
        let times = RecordTimes::of(then, limit.unix_nanos(then), limit, usage);
        let mut blocks = times.blocks(limit.rate(), usage);
        let reports = usage.reported.map(|reports| Box::new(UpstreamReports::restored(limit, then, reports, times)));
        if usage.doubted {
            let unused = CountedBucket { reports: reports.clone(), ..CountedBucket::default() };
            blocks.push(UsageBlock { from: then, until: unused.counted_until(limit, then), credit: limit.full() });
        }
        let mut restored = CountedBucket::from_blocks(limit, then, &blocks, reports);
        restored.inherit(limit, times.latest_blocks(limit.rate(), &usage.places));
        restored
    }

    pub(super) fn from_blocks(
        limit: &Limit,
        now: Time,
        blocks: &[UsageBlock],
        reports: Option<Box<UpstreamReports>>,
    ) -> Self {
        let blocks = || blocks.iter().filter(|block| block.credit > Credit::ZERO && block.until > now.max(block.from));
        let mut counted = CountedBucket {
            now,
            anonymous_until: blocks().map(|block| block.until).max().unwrap_or(now),
            // Anonymous usage may have been higher a moment ago.
            last_end: blocks().next().map(|_| now),
            reports,
            ..CountedBucket::default()
        };
        let several = |block: &&UsageBlock| block.until > counted.counted_until(limit, block.from);
        let ambiguous =
            blocks().filter(|block| limit.alignment().is_some() && several(block)).map(|block| block.from).min();
        counted.ambiguous_from = ambiguous.unwrap_or(Time::NEVER);
        blocks().for_each(|block| counted.add_usage(limit, block.from, block.until, block.credit));
        counted.inherit(limit, Vec::new());
        counted
    }

    /// Records our own usage for a successor. All of `granted` counts as used. Calls in flight hold
    /// at least until a lease from `renewed` on would end.
    pub(crate) fn usage(&self, limit: &Limit, granted: UsageBlock, renewed: Time) -> Option<CountedUsage> {
        let now = granted.from;
        let renewable = limit.counts_calls_in_flight() && renewed > now;
        let own = self.without_claim(limit);
        let renewed = renewable.then(|| self.counted_until(limit, renewed));
        let budget = UsageBlock { until: self.counted_until(limit, granted.until), ..granted };
        let mut blocks = condensed(own.blocks(limit, renewed));
        blocks.extend(Some(budget).filter(|budget| budget.credit > Credit::ZERO));
        let places = if limit.counts_calls_in_flight() { self.named_places(budget, renewed) } else { Vec::new() };
        Some(CountedUsage {
            unix_nanos: limit.unix_nanos(now),
            spans: to_spans(now, limit.rate(), &blocks),
            places: to_spans(now, limit.rate(), &places),
            doubted: false,
            reported: self.reports.as_ref().and_then(|reports| reports.recorded(now)),
        })
    }

    /// Usage includes all promises.
    pub(crate) fn debits(&self, _: &Limit, _: UsageBlock, _: StartKey) -> Vec<DebitSnapshot> {
        Vec::new()
    }

    /// Returns the same usage under another limit, counting for the longer of its times under both.
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
        if from.counts_calls_in_flight() {
            let later = |place: &UsageBlock| UsageBlock {
                until: place.until + longer.unwrap_or(Span::ZERO),
                credit: up(place.credit),
                ..*place
            };
            recast.inherited = self.inherited.as_deref().map(|places| Box::new(places.iter().map(later).collect()));
        }
        for (key, CountedCall { cost, tier, until, .. }) in &self.calls {
            let longer_until = *until + longer.unwrap_or(Span::ZERO);
            let until = if to.alignment().is_some() { recast.end_of_call(to, key.at) } else { longer_until };
            recast.commit_until(to, *key, StartCost { credit: up(*cost), tier: *tier }, until);
        }
        if let (Some(longer), Some(last)) = (longer, self.last_end) {
            // The new limit counts usage that this bucket has forgotten: at most what the former
            // limit admitted in that time.
            let most = from.full().times(longer.nanos().div_ceil(from.spec().period.nanos()).saturating_add(1));
            let unknown = up(most.min(from.rate().credit(to.spec().capacity))) - recast.total;
            recast.add_usage(to, now, last + longer, unknown.max(Credit::ZERO));
        }
        recast
    }

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

    /// Returns usage in blocks, cut at ends of windows. Listed calls last until `renewed` at least.
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

    /// Returns the changes until the end of time. All listed calls count until `renewed` at least.
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

    /// Notes that all present usage is by calls of a predecessor. Each fall of usage below all
    /// before is the end of a lease, unless the predecessor has named the `places`.
    pub(super) fn inherit(&mut self, limit: &Limit, places: Vec<UsageBlock>) {
        let mut places = if places.is_empty() { self.falls() } else { places };
        places.retain(|place| limit.counts_calls_in_flight() && place.until > self.now && place.credit > Credit::ZERO);
        places.sort_by_key(|place| place.until);
        self.inherited = Some(places).filter(|places| !places.is_empty()).map(Box::new);
    }

    fn falls(&self) -> Vec<UsageBlock> {
        let (mut used, mut least, mut falls) = (self.total, self.total, Vec::new());
        for (until, change) in &self.steps {
            used += *change;
            if used < least {
                falls.push(UsageBlock { from: self.now, until: *until, credit: least - used });
                least = used;
            }
        }
        falls
    }

    /// Returns the places of all calls, if some of these start after `now`: usage alone does not
    /// show a lease that ends as another one begins. Places beyond the bound are freed by no
    /// settle. Own calls hold theirs until `renewed` at least.
    pub(super) fn named_places(&self, budget: UsageBlock, renewed: Option<Time>) -> Vec<UsageBlock> {
        let now = budget.from;
        let own = self.calls.iter().map(|(key, call)| UsageBlock {
            from: key.at.max(now),
            until: renewed.map_or(call.until, |end| call.until.max(end)),
            credit: call.cost,
        });
        let inherited = self.inherited.iter().flat_map(|places| places.iter().copied());
        let mut places: Vec<UsageBlock> = own.chain(inherited).chain([budget]).collect();
        places.iter_mut().for_each(|place| place.from = place.from.max(now));
        places.retain(|place| place.until > now && place.credit > Credit::ZERO);
        if places.iter().all(|place| place.from == now) {
            return Vec::new();
        }
        places.sort_by_key(|place| (place.from, place.until));
        places.dedup_by(|next, place| {
            let same = (next.from, next.until) == (place.from, place.until);
            place.credit += if same { next.credit } else { Credit::ZERO };
            same
        });
        places.truncate(MAX_BLOCKS);
        places
    }

    pub(crate) fn end_inherited(&mut self, limit: &Limit, now: Time, cost: StartCost) -> bool {
        self.advance(limit, now);
        let (now, mut left) = (self.now, cost.credit);
        let Some(places) = self.inherited.as_deref_mut() else { return false };
        let mut freed = Vec::new();
        for place in places.iter_mut().filter(|place| place.from <= now && place.until > now) {
            let part = place.credit.min(left);
            place.credit -= part;
            left -= part;
            freed.push((place.until, part));
        }
        self.forget_ended_places();
        freed.retain(|(_, part)| *part > Credit::ZERO);
        freed.iter().for_each(|(until, part)| self.add_usage(limit, now, *until, -*part));
        !freed.is_empty()
    }

    /// Takes the places of a call that is listed, which end with it.
    pub(super) fn take_inherited(&mut self, end: Time, cost: Credit) {
        let mut left = cost;
        let Some(places) = self.inherited.as_deref_mut() else { return };
        let ended = places.partition_point(|place| place.until <= end);
        let (own, later) = places.split_at_mut(ended);
        for place in own.iter_mut().rev().chain(later) {
            let part = place.credit.min(left);
            place.credit -= part;
            left -= part;
        }
        self.forget_ended_places();
    }

    fn forget_ended_places(&mut self) {
        let now = self.now;
        let Some(places) = self.inherited.as_deref_mut() else { return };
        places.retain(|place| place.until > now && place.credit > Credit::ZERO);
        if places.is_empty() {
            self.inherited = None;
        }
    }
}

//! A token bucket and its promises.
//!
//! The [timeline](crate::limits::timeline) holds the promises. A search examines the gap between
//! two promises: when it pays the demand, and whether every later promise can still be paid. If
//! not, the search goes on after the last promise that lacks something.

use crate::limits::freeze::Freeze;
use crate::limits::level_history::{HighWaterMarks, LevelHistory, MAX_FEW, MAX_LEVELS};
use crate::limits::pending_debits::{DebitSnapshot, PendingDebits};
use crate::limits::timeline::{CommittedStart, Gap, StartKey, Timeline, just_after};
use crate::limits::usage::{BucketRecord, CountedUsage, NEAR, UsageBlock, level_when_paid, paid_at};
use crate::limits::windows::BucketReading;
use rampmeter_policy::Limit;
use rampmeter_policy::arithmetic::{Correction, Credit, StartCost};
use rampmeter_policy::ids::Tier;
use rampmeter_protocol::time::{Span, Time};

/// Pending debits have this serial number; starts are numbered from one on.
const DEBIT_SERIAL: u64 = 0;

/// The tokens of a limit for one key, with the guarantee of [`Bucket`](super::Bucket).
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    /// The potential after all past starts.
    base: Credit,
    peaks: HighWaterMarks,
    extra: Option<Box<ActiveState>>,
}

/// The state that a bucket needs only while it has promises, freezes or reports.
#[derive(Clone, Debug)]
struct ActiveState {
    promised: Timeline,
    pending_debits: PendingDebits,
    levels: LevelHistory,
    freeze: Option<Freeze>,
    /// Whether levels are remembered until the bucket is forgotten.
    is_kept: bool,
}

impl ActiveState {
    const EMPTY: ActiveState = ActiveState {
        promised: Timeline::EMPTY,
        pending_debits: PendingDebits::none(),
        levels: LevelHistory::of(MAX_FEW),
        freeze: None,
        is_kept: false,
    };

    fn is_empty(&self) -> bool {
        self.promised.last().is_none() && self.pending_debits.is_none()
    }
}

static NOT_ACTIVE: ActiveState = ActiveState::EMPTY;

impl TokenBucket {
    /// The bucket's past is unknown: it may have been full, so earlier calls return nothing.
    pub(crate) fn new(limit: &Limit, now: Time, level: Credit) -> Self {
        TokenBucket::with_pending(limit, now, level, PendingDebits::none())
    }

    pub(crate) fn empty_until(limit: &Limit, now: Time, empty: Time) -> Self {
        TokenBucket::new(limit, now, limit.rate().refill(now) - limit.rate().refill(empty))
    }

    /// A predecessor that counted calls has recorded its level, too.
    pub(crate) fn from_record(limit: &Limit, then: Time, record: &BucketRecord) -> Self {
        let pending_debits = PendingDebits::restored(then, limit.rate(), &record.pending_debits);
        let mut bucket =
            TokenBucket::with_pending(limit, then, limit.rate().credit_of_micros(record.micros), pending_debits);
        if !record.rooms.is_empty() {
            bucket.peaks = HighWaterMarks::default();
            for (age, room) in &record.rooms {
                bucket.peaks.note(then - *age, limit.full() - limit.rate().credit_of_micros(i128::from(*room)));
            }
        }
        bucket
    }

    pub(crate) fn rooms(&self, limit: &Limit, now: Time) -> Vec<(Span, u64)> {
        let room = |level| u64::try_from(limit.rate().micros(limit.full() - level)).unwrap_or(0);
        let marks = self.peaks.marks_for_successor(now, self.level_now(limit, now));
        marks.into_iter().map(|(at, level)| (now.since(at), room(level))).collect()
    }

    /// Creates a bucket whose stock a predecessor may have promised as `pending_debits`.
    fn with_pending(limit: &Limit, now: Time, level: Credit, pending_debits: PendingDebits) -> Self {
        let mut peaks = HighWaterMarks::default();
        peaks.note(now, limit.full());
        let base = level.min(limit.full() - pending_debits.at(now)) - limit.rate().refill(now);
        let mut bucket = TokenBucket { base, peaks, extra: None };
        if !pending_debits.is_none() {
            bucket.add_pending_debits(limit, pending_debits);
        }
        bucket
    }

    fn add_pending_debits(&mut self, limit: &Limit, pending_debits: PendingDebits) {
        let extra = self.extra_mut();
        for (at, credit) in pending_debits.steps() {
            // A start without cost at the step's end makes the timeline count what runs over until
            // then.
            let key = StartKey { at, serial: DEBIT_SERIAL };
            extra.promised.insert(
                limit,
                CommittedStart { key, cost: Credit::ZERO, tier: Tier::NO_HEADROOM, pending_debits: credit },
            );
        }
        extra.pending_debits = pending_debits;
    }

    pub(crate) fn is_unused(&self, limit: &Limit, now: Time) -> bool {
        self.extra().is_empty() && self.level_now(limit, now) >= limit.full()
    }

    pub(crate) fn remember_levels(&mut self) {
        let extra = self.extra_mut();
        extra.levels.most = MAX_LEVELS;
        extra.is_kept = true;
    }

    pub(crate) fn drop_unneeded(&mut self) {
        self.extra.take_if(|extra| !extra.is_kept && extra.freeze.is_none() && extra.is_empty());
    }

    pub(crate) fn earliest(&self, limit: &Limit, from: Time, cost: StartCost) -> Time {
        let most_pending = limit.full() - limit.demand(cost.credit, cost.tier);
        let mut from = from.max(self.extra().pending_debits.at_most(most_pending));
        loop {
            match self.start_in_gap(limit, from, cost) {
                Ok(start) | Err(start @ Time::NEVER) => return start,
                Err(later) => from = later,
            }
        }
    }

    pub(crate) fn commit(&mut self, limit: &Limit, now: Time, key: StartKey, cost: StartCost) {
        let start = CommittedStart {
            key,
            cost: cost.credit,
            tier: cost.tier,
            pending_debits: self.extra().pending_debits.at(key.at),
        };
        if key.at <= now { self.spend(limit, start) } else { self.extra_mut().promised.insert(limit, start) }
    }

    pub(crate) fn commit_paid(&mut self, limit: &Limit, now: Time, key: StartKey, cost: StartCost, _: Option<Time>) {
        self.base += cost.credit;
        self.commit(limit, now, key, cost);
    }

    pub(crate) fn withdraw(&mut self, limit: &Limit, key: StartKey) -> bool {
        self.extra.as_mut().is_some_and(|extra| extra.promised.remove(limit, key))
    }

    pub(crate) fn freeze(&self) -> Option<Freeze> {
        self.extra().freeze
    }

    pub(crate) fn set_freeze(&mut self, freeze: Option<Freeze>) {
        if freeze.is_some() || self.extra.is_some() {
            self.extra_mut().freeze = freeze;
        }
    }

    pub(crate) fn promises_between(&self, from: Time, until: Time) -> bool {
        let promised = &self.extra().promised;
        promised.sum_from(just_after(from)) > promised.sum_from(just_after(until))
    }

    pub(crate) fn adopt(&mut self, now: Time, from: &Limit, to: &Limit) {
        let level = self.level_now(from, now);
        if let Some(extra) = &mut self.extra {
            extra.promised = extra.promised.under(to);
        }
        self.set_level(to, now, level);
    }

    /// The upstream's bucket is assumed to keep its level if it can. The past is forgotten.
    pub(crate) fn recast(&self, now: Time, from: &Limit, to: &Limit) -> Self {
        let margin = |limit: &Limit| limit.rate().credit(limit.margin());
        let down = |credit| to.rate().credit_of_micros(from.rate().micros(credit));
        let up = |credit| to.rate().credit_of_micros(i128::from(from.rate().micros_up(credit)));
        let pending_debits = self.extra().pending_debits.steps().map(|(until, credit)| (until, up(credit)));
        let level = down(self.level_now(from, now) + margin(from)) - margin(to);
        let paid = paid_at(from.rate(), now, self.level_now(from, now)).filter(|_| to.is_keyed());
        let level = level_when_paid(to, now, level, paid);
        let mut bucket = TokenBucket::with_pending(to, now, level, PendingDebits::new(pending_debits.collect()));
        for start in self.extra().promised.starts().filter(|start| start.key.serial != DEBIT_SERIAL) {
            let pending_debits = bucket.extra().pending_debits.at(start.key.at);
            bucket.extra_mut().promised.insert(to, CommittedStart { cost: up(start.cost), pending_debits, ..start });
        }
        bucket
    }

    pub(crate) fn level_after(&self, limit: &Limit, last_start: Time, time: Time) -> Option<Credit> {
        self.extra().levels.level_at(limit, last_start, time)
    }

    pub(crate) fn shift_from(&mut self, limit: &Limit, now: Time, since: Time, by: Credit) {
        if let Some(extra) = &mut self.extra {
            extra.levels.shift_from(since, by);
        }
        self.set_level(limit, now, self.level_now(limit, now) + by);
    }

    /// Learns what the upstream had left after a call. If the level then is forgotten, the call
    /// counts as the last one so far. A surplus teaches nothing, as a bucket that is too low fills
    /// up by itself.
    pub(crate) fn learn(&mut self, limit: &Limit, now: Time, reading: &BucketReading) -> bool {
        let (at, remaining) = (reading.at, reading.remaining);
        let margin = limit.rate().credit(limit.margin());
        let known = self.level_after(limit, at, at);
        let level = known.unwrap_or_else(|| self.level_now(limit, now) - limit.rate().refill_within(now.since(at)));
        let short = level + margin - remaining;
        self.extra_mut().is_kept = true;
        if short > margin.divided_by(2) {
            self.shift_from(limit, now, Time::ORIGIN, -short);
        }
        true
    }

    pub(crate) fn last_full(&self, limit: &Limit) -> Option<Time> {
        self.peaks.last_at_least(limit.full())
    }

    pub(crate) fn advance(&mut self, limit: &Limit, now: Time) {
        while let Some(start) = self.extra.as_mut().and_then(|extra| extra.promised.pop_due(limit, now)) {
            self.spend(limit, start);
        }
        if let Some(extra) = &mut self.extra {
            extra.pending_debits.drop_steps_ended_before(now);
        }
    }

    /// Unused cost is returned if the bucket had room for it ever since the start.
    pub(crate) fn correct(&mut self, limit: &Limit, now: Time, key: StartKey, correction: Correction) {
        let Correction { charged, actual } = correction;
        if actual == charged {
            return;
        }
        let since = key.at.min(now);
        let returned = (charged - actual).min(self.room_since(limit, now, since));
        if returned > Credit::ZERO {
            self.peaks.raise_after(since, returned);
        }
        self.shift_from(limit, now, since, returned);
    }

    /// Returns how much more the bucket could have held ever since `since`.
    fn room_since(&self, limit: &Limit, now: Time, since: Time) -> Credit {
        let level = self.level_now(limit, now);
        let highest = self.peaks.highest_after(since).map_or(level, |peak| peak.max(level));
        (self.full_at(limit, now) - highest).max(Credit::ZERO)
    }

    /// Promises are paid first.
    pub(crate) fn drain(&mut self, limit: &Limit, now: Time) {
        let credit = self.level(limit, now).max(Credit::ZERO);
        self.set_level(limit, now, self.level_now(limit, now) - credit);
    }

    pub(crate) fn level(&self, limit: &Limit, now: Time) -> Credit {
        self.level_now(limit, now) - self.extra().promised.sum()
    }

    fn level_until(&self, limit: &Limit, now: Time, time: Time) -> Credit {
        self.level(limit, now) + self.extra().promised.sum_from(just_after(time))
    }

    /// Tokens are refilled steadily, so no later amount counts in advance.
    pub(crate) fn near_level(&self, limit: &Limit, now: Time, _: Span) -> Credit {
        self.level_until(limit, now, now + NEAR)
    }

    /// A held start is paid by refill until its time, and takes nothing from the stock at `now`.
    pub(crate) fn level_without(&self, limit: &Limit, now: Time, _: impl Iterator<Item = StartKey>) -> Credit {
        self.level_until(limit, now, now)
    }

    pub(crate) fn empty_at(&self, limit: &Limit, now: Time) -> Time {
        limit.empty_at(now, level_when_paid(limit, now, self.level(limit, now), self.last_promise()))
    }

    pub(crate) fn next_promise(&self) -> Option<Time> {
        self.extra.as_ref()?.promised.next()
    }

    pub(crate) fn last_promise(&self) -> Option<Time> {
        self.extra().promised.last()
    }

    /// The level alone describes the past.
    pub(crate) fn usage(&self, _: &Limit, _: UsageBlock, _: Time) -> Option<CountedUsage> {
        None
    }

    /// Returns the pending debits of a successor that counts all promises as spent.
    pub(crate) fn debits(&self, limit: &Limit, granted: UsageBlock, listed: StartKey) -> Vec<DebitSnapshot> {
        let UsageBlock { from: now, until: near, credit: budget } = granted;
        let last = listed.at.min(self.last_promise().unwrap_or(now));
        let outstanding = |from: Time| {
            let unknown = if from < near { budget } else { Credit::ZERO };
            limit.rate().micros_up(self.outstanding_after(from, listed) + unknown)
        };
        self.extra().pending_debits.snapshots(now, last.min(now + NEAR).max(near), last, outstanding)
    }

    /// Returns the pending debits right after `time`, without promises from `listed` on.
    fn outstanding_after(&self, time: Time, listed: StartKey) -> Credit {
        let (just_after, promised) = (just_after(time), &self.extra().promised);
        let unlisted = (promised.sum_from(just_after) - promised.sum_from(listed)).max(Credit::ZERO);
        self.extra().pending_debits.at(just_after.at) + unlisted
    }

    /// A level of zero rises at once.
    pub(crate) fn opens(&self, limit: &Limit, now: Time) -> Time {
        self.paid_after(limit, now, Credit::ZERO, StartCost { credit: Credit::ZERO, tier: Tier::NO_HEADROOM })
    }

    pub(crate) fn paid_after(&self, limit: &Limit, now: Time, backlog: Credit, cost: StartCost) -> Time {
        let owed = backlog + limit.demand(cost.credit, cost.tier) - self.level(limit, now);
        let refilled = limit.rate().refill(now);
        if owed <= Credit::ZERO { now } else { limit.rate().refilled_at(refilled + owed) }
    }

    /// Finds the first possible start in the gap at `from`, or in the next gap that pays. Otherwise
    /// returns a later time before which there is none.
    fn start_in_gap(&self, limit: &Limit, from: Time, cost: StartCost) -> Result<Time, Time> {
        let demand = limit.demand(cost.credit, cost.tier);
        let promised = &self.extra().promised;
        let mut gap = promised.gap_before(limit, self.base, just_after(from));
        let mut start = pays_at(limit, gap, from, demand);
        if let Some(end) = gap.end.filter(|end| start >= end.at) {
            gap = promised.first_gap_above(limit, end, gap.potential, demand);
            start = pays_at(limit, gap, from, demand);
        }
        if let Some(end) = gap.end {
            if start >= end.at {
                return Err(end.at);
            }
            self.check_later_starts(limit, gap, start, cost)?;
        }
        Ok(start)
    }

    /// Checks that a start leaves enough for later promises, or returns when the search goes on.
    fn check_later_starts(&self, limit: &Limit, gap: Gap, start: Time, cost: StartCost) -> Result<(), Time> {
        let capped = gap.potential.min(self.cap(limit, start));
        let promised = &self.extra().promised;
        match promised.first_short(limit, just_after(start), capped - cost.credit, cost.tier) {
            None => Ok(()),
            Some(short) => {
                let cap = self.cap(limit, short.at);
                Err(promised.last_short(limit, self.base, cap, short, cost).at)
            }
        }
    }

    fn extra(&self) -> &ActiveState {
        self.extra.as_deref().unwrap_or(&NOT_ACTIVE)
    }

    /// Creates the extra state if there is none. Past levels are remembered from then on.
    fn extra_mut(&mut self) -> &mut ActiveState {
        self.extra.get_or_insert_with(|| Box::new(ActiveState::EMPTY))
    }

    fn spend(&mut self, limit: &Limit, start: CommittedStart) {
        let level = self.level_now(limit, start.key.at);
        self.peaks.note(start.key.at, level);
        if let Some(extra) = &mut self.extra {
            extra.levels.note(start.key.at, level - start.cost);
        }
        self.set_level(limit, start.key.at, level - start.cost);
    }

    fn set_level(&mut self, limit: &Limit, now: Time, level: Credit) {
        self.base = level.max(Credit::FLOOR) - limit.rate().refill(now);
    }

    /// Returns the level after all past starts, before any promise.
    fn level_now(&self, limit: &Limit, now: Time) -> Credit {
        (self.base + limit.rate().refill(now)).min(self.full_at(limit, now))
    }

    fn full_at(&self, limit: &Limit, time: Time) -> Credit {
        limit.full() - self.extra().pending_debits.at(time)
    }

    fn cap(&self, limit: &Limit, time: Time) -> Credit {
        self.full_at(limit, time) - limit.rate().refill(time)
    }
}

/// Returns when the gap pays `demand`, from `from` on: usually at once, which needs no division.
fn pays_at(limit: &Limit, gap: Gap, from: Time, demand: Credit) -> Time {
    if gap.potential + limit.rate().refill(from) >= demand {
        return from;
    }
    limit.rate().refilled_at(demand - gap.potential)
}

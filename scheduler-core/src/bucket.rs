//! One token bucket and what it has promised.

use crate::credit::Credit;
use crate::limit::{Limit, Tier};
use crate::peaks::Peaks;
use crate::timeline::{Gap, Key, Start, Timeline, just_after};
use rampmeter_protocol::time::Time;

/// What one start takes from a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) cost: Credit,
    pub(crate) tier: Tier,
}

/// The state of a limit for one key.
///
/// Guarantees that no committed start finds less in the bucket than it costs, whatever is
/// committed later: a newcomer is put where every start behind it can still pay. Only a debit,
/// which tells of tokens that are gone already, can break a promise.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// The potential behind all starts that are past.
    base: Credit,
    promised: Timeline,
    peaks: Peaks,
}

impl Bucket {
    /// A bucket with `level` at `now`. What it was before is unknown: it may have been full, so that
    /// calls from then return nothing.
    pub(crate) fn new(limit: &Limit, now: Time, level: Credit) -> Self {
        let level = level.min(limit.full());
        let mut peaks = Peaks::default();
        peaks.note(now, limit.full());
        Bucket { base: level - limit.rate().refill(now), promised: Timeline::default(), peaks }
    }

    /// The earliest time from `from` on at which `draw` can be committed. The bucket must be
    /// [advanced](Bucket::advance) to now, and `from` must not lie before now.
    pub(crate) fn earliest(&self, limit: &Limit, from: Time, draw: Draw) -> Time {
        let mut from = from;
        loop {
            match self.try_from(limit, from, draw) {
                Ok(start) | Err(start @ Time::NEVER) => return start,
                Err(later) => from = later,
            }
        }
    }

    /// Commits a start at `at`, which [`Bucket::earliest`] found.
    pub(crate) fn commit(&mut self, limit: &Limit, now: Time, key: Key, draw: Draw) {
        let start = Start { key, cost: draw.cost, tier: draw.tier };
        if key.at <= now { self.spend(limit, start) } else { self.promised.insert(limit, start) }
    }

    /// Commits a start that the bucket has paid for already.
    pub(crate) fn promise_again(&mut self, limit: &Limit, now: Time, key: Key, draw: Draw) {
        self.base += draw.cost;
        self.commit(limit, now, key, draw);
    }

    /// Takes a promised start back; false if it is past or unknown.
    pub(crate) fn withdraw(&mut self, limit: &Limit, key: Key) -> bool {
        self.promised.remove(limit, key)
    }

    /// Turns promises whose time has come into tokens spent.
    pub(crate) fn advance(&mut self, limit: &Limit, now: Time) {
        while let Some(start) = self.promised.pop_due(limit, now) {
            self.spend(limit, start);
        }
    }

    /// Gives back `credit` that a call which started at `since` did not need, as far as the
    /// bucket had room for it all the time.
    pub(crate) fn refund(&mut self, limit: &Limit, now: Time, since: Time, credit: Credit) {
        let level = self.level_now(limit, now);
        let highest = self.peaks.highest_after(since).map_or(level, |peak| peak.max(level));
        let room = (limit.full() - highest).max(Credit::ZERO);
        let returned = credit.min(room);
        self.peaks.raise_after(since, returned);
        self.set_level(limit, now, level + returned);
    }

    /// Takes `credit` that a call needed on top of its estimate. The level may fall below zero.
    pub(crate) fn debit(&mut self, limit: &Limit, now: Time, credit: Credit) {
        self.set_level(limit, now, self.level_now(limit, now) - credit);
    }

    /// What could be spent at `now` if every promise were paid now: the level of the plain formula.
    pub(crate) fn level(&self, limit: &Limit, now: Time) -> Credit {
        self.level_now(limit, now) - self.promised.sum()
    }

    /// When everything promised, `backlog` and `draw` have been paid from the refill.
    pub(crate) fn paid_behind(&self, limit: &Limit, now: Time, backlog: Credit, draw: Draw) -> Time {
        let owed = backlog + limit.demand(draw.cost, draw.tier) - self.level(limit, now);
        let refilled = limit.rate().refill(now);
        if owed <= Credit::ZERO { now } else { limit.rate().time_to_refill(refilled + owed) }
    }

    /// The first possible start in the gap at `from`, or in the next gap that pays; otherwise a
    /// later time, before which there is none.
    fn try_from(&self, limit: &Limit, from: Time, draw: Draw) -> Result<Time, Time> {
        let demand = limit.demand(draw.cost, draw.tier);
        let mut gap = self.promised.gap_at(limit, self.base, from);
        let mut start = pays_at(limit, gap, from, demand);
        if gap.end.is_some_and(|end| start >= end.at) {
            gap = self.promised.gap_that_pays(limit, gap, demand);
            start = pays_at(limit, gap, from, demand);
        }
        if let Some(end) = gap.end {
            if start >= end.at {
                return Err(end.at);
            }
            self.spares(limit, gap, start, draw)?;
        }
        Ok(start)
    }

    /// Whether every start behind one at `start` can still pay; if not, the time from which on to
    /// look again.
    fn spares(&self, limit: &Limit, gap: Gap, start: Time, draw: Draw) -> Result<(), Time> {
        let capped = gap.potential.min(limit.full() - limit.rate().refill(start));
        match self.promised.first_short(limit, just_after(start), capped - draw.cost, draw.tier) {
            None => Ok(()),
            Some(short) => Err(self.promised.last_short(limit, self.base, short, draw.cost, draw.tier).at),
        }
    }

    fn spend(&mut self, limit: &Limit, start: Start) {
        let level = self.level_now(limit, start.key.at);
        self.peaks.note(start.key.at, level);
        self.set_level(limit, start.key.at, level - start.cost);
    }

    fn set_level(&mut self, limit: &Limit, now: Time, level: Credit) {
        self.base = level.max(Credit::FLOOR) - limit.rate().refill(now);
    }

    /// The level behind what is past, before what is promised.
    fn level_now(&self, limit: &Limit, now: Time) -> Credit {
        (self.base + limit.rate().refill(now)).min(limit.full())
    }
}

/// When the gap pays `demand`, from `from` on. Mostly it does at once, which needs no division.
fn pays_at(limit: &Limit, gap: Gap, from: Time, demand: Credit) -> Time {
    if gap.potential + limit.rate().refill(from) >= demand {
        return from;
    }
    limit.rate().time_to_refill(demand - gap.potential)
}

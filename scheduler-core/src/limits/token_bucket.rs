//! One token bucket and what it has promised.

use super::freeze::Freeze;
use super::level_history::{HighWaterMarks, LevelHistory};
use super::pending_debits::PendingDebits;
use super::timeline::{Gap, PromisedStart, StartKey, Timeline, just_after};
use crate::arithmetic::{Credit, Draw};
use crate::policy::Limit;
use rampmeter_protocol::time::Time;

/// Starts are numbered from one on.
const BEFORE_ALL: u64 = 0;

/// The state of a limit for one key.
///
/// Guarantees that no committed start finds less in the bucket than it costs, whatever is
/// committed later: a newcomer is put where every start behind it can still pay. Only a debit,
/// which tells of tokens that are gone already, can break a promise.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    /// The potential behind all starts that are past.
    base: Credit,
    peaks: HighWaterMarks,
    /// What most buckets by key do without.
    rest: Option<Box<Rest>>,
}

/// All about a bucket but what was spent of it.
#[derive(Clone, Debug, Default)]
struct Rest {
    promised: Timeline,
    pending_debits: PendingDebits,
    levels: LevelHistory,
    freeze: Option<Freeze>,
}

impl Rest {
    /// Whether nothing is promised or withheld.
    fn is_empty(&self) -> bool {
        self.promised.last().is_none() && self.pending_debits.is_none()
    }
}

static NOTHING: Rest = Rest {
    promised: Timeline::new(),
    pending_debits: PendingDebits::none(),
    levels: LevelHistory::new(),
    freeze: None,
};

impl TokenBucket {
    /// A bucket with `level` at `now`, of which its predecessor may have promised what is withheld. What it was before is unknown: it
    /// may have been full, so that calls from then return nothing.
    pub(crate) fn new(limit: &Limit, now: Time, level: Credit, pending_debits: PendingDebits) -> Self {
        let mut peaks = HighWaterMarks::default();
        peaks.note(now, limit.full());
        let base = level.min(limit.full() - pending_debits.at(now)) - limit.rate().refill(now);
        let mut bucket = TokenBucket { base, peaks, rest: None };
        if !pending_debits.is_none() {
            bucket.withhold(limit, pending_debits);
        }
        bucket
    }

    fn withhold(&mut self, limit: &Limit, pending_debits: PendingDebits) {
        let rest = self.rest_mut();
        for (at, credit) in pending_debits.steps() {
            // Where the bucket can hold more from now on, what has run over until now is to be noticed.
            let key = StartKey { at, serial: BEFORE_ALL };
            rest.promised.insert(limit, PromisedStart { key, cost: Credit::ZERO, tier: 0, pending_debits: credit });
        }
        rest.pending_debits = pending_debits;
    }

    /// Remembers from now on where its level has been, for what the upstream says of that.
    pub(crate) fn track(&mut self) {
        self.rest_mut();
    }

    /// Whether it is full, and nothing is promised.
    pub(crate) fn is_unused(&self, limit: &Limit, now: Time) -> bool {
        self.rest().is_empty() && self.level_now(limit, now) >= limit.full()
    }

    /// Does without what nobody asks for.
    pub(crate) fn shed(&mut self) {
        self.rest.take_if(|rest| rest.freeze.is_none() && rest.is_empty());
    }

    /// The earliest time from `from` on at which `draw` can be committed. The bucket must be
    /// [advanced](TokenBucket::advance) to now, and `from` must not lie before now.
    pub(crate) fn earliest(&self, limit: &Limit, from: Time, draw: Draw) -> Time {
        let most_withheld = limit.full() - limit.demand(draw.cost, draw.tier);
        let mut from = from.max(self.rest().pending_debits.at_most(most_withheld));
        loop {
            match self.try_from(limit, from, draw) {
                Ok(start) | Err(start @ Time::NEVER) => return start,
                Err(later) => from = later,
            }
        }
    }

    /// Commits a start at `at`, which [`TokenBucket::earliest`] found.
    pub(crate) fn commit(&mut self, limit: &Limit, now: Time, key: StartKey, draw: Draw) {
        let start = PromisedStart {
            key,
            cost: draw.cost,
            tier: draw.tier,
            pending_debits: self.rest().pending_debits.at(key.at),
        };
        if key.at <= now { self.spend(limit, start) } else { self.rest_mut().promised.insert(limit, start) }
    }

    /// Commits a start that the bucket has paid for already.
    pub(crate) fn promise_again(&mut self, limit: &Limit, now: Time, key: StartKey, draw: Draw) {
        self.base += draw.cost;
        self.commit(limit, now, key, draw);
    }

    /// Takes a promised start back; false if it is past or unknown.
    pub(crate) fn withdraw(&mut self, limit: &Limit, key: StartKey) -> bool {
        self.rest.as_mut().is_some_and(|rest| rest.promised.remove(limit, key))
    }

    pub(crate) fn freeze(&self) -> Option<Freeze> {
        self.rest().freeze
    }

    pub(crate) fn set_freeze(&mut self, freeze: Option<Freeze>) {
        if freeze.is_some() || self.rest.is_some() {
            self.rest_mut().freeze = freeze;
        }
    }

    /// Whether starts in this time are promised.
    pub(crate) fn promises_between(&self, from: Time, until: Time) -> bool {
        let promised = &self.rest().promised;
        promised.sum_from(just_after(from)) > promised.sum_from(just_after(until))
    }

    /// Goes on under a limit that differs in its rate or in what a full bucket holds.
    pub(crate) fn adopt(&mut self, now: Time, from: &Limit, to: &Limit) {
        let level = self.level_now(from, now);
        if let Some(rest) = &mut self.rest {
            rest.promised = rest.promised.under(to);
        }
        self.set_level(to, now, level);
    }

    /// The same bucket under a limit of another size: the upstream's is taken to hold what it held, as far as it can. What was
    /// before is forgotten.
    pub(crate) fn recast(&self, now: Time, from: &Limit, to: &Limit) -> Self {
        let margin = |limit: &Limit| limit.rate().credit(limit.margin());
        let down = |credit| to.rate().credit_of_micros(from.rate().micros(credit));
        let up = |credit| to.rate().credit_of_micros(i128::from(from.rate().micros_up(credit)));
        let pending_debits = self.rest().pending_debits.steps().map(|(until, credit)| (until, up(credit)));
        let level = down(self.level_now(from, now) + margin(from)) - margin(to);
        let mut bucket = TokenBucket::new(to, now, level, PendingDebits::new(pending_debits.collect()));
        for start in self.rest().promised.starts().into_iter().filter(|start| start.key.serial != BEFORE_ALL) {
            let pending_debits = bucket.rest().pending_debits.at(start.key.at);
            bucket.rest_mut().promised.insert(to, PromisedStart { cost: up(start.cost), pending_debits, ..start });
        }
        bucket
    }

    /// The level right behind what started until `time`, as far as that is remembered.
    pub(crate) fn level_after(&self, limit: &Limit, time: Time) -> Option<Credit> {
        self.rest().levels.level_at(limit, time)
    }

    /// Learns that the level has been off by this much since then.
    pub(crate) fn shift_from(&mut self, limit: &Limit, now: Time, since: Time, by: Credit) {
        if let Some(rest) = &mut self.rest {
            rest.levels.shift_from(since, by);
        }
        self.set_level(limit, now, self.level_now(limit, now) + by);
    }

    /// When the bucket was last full right before a start.
    pub(crate) fn last_full(&self, limit: &Limit) -> Option<Time> {
        self.peaks.last_at_least(limit.full())
    }

    /// Turns promises whose time has come into tokens spent.
    pub(crate) fn advance(&mut self, limit: &Limit, now: Time) {
        while let Some(start) = self.rest.as_mut().and_then(|rest| rest.promised.pop_due(limit, now)) {
            self.spend(limit, start);
        }
        if let Some(rest) = &mut self.rest {
            rest.pending_debits.forget_before(now);
        }
    }

    /// Learns that the call of `key` took `actual`, where it was charged something else. What it did not need is given back as far as
    /// the bucket had room for it all the time since its start.
    pub(crate) fn correct(&mut self, limit: &Limit, now: Time, key: StartKey, (charged, actual): (Credit, Credit)) {
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

    /// How much more the bucket could have held all the time since `since`.
    fn room_since(&self, limit: &Limit, now: Time, since: Time) -> Credit {
        let level = self.level_now(limit, now);
        let highest = self.peaks.highest_after(since).map_or(level, |peak| peak.max(level));
        (self.full_at(limit, now) - highest).max(Credit::ZERO)
    }

    /// Takes `credit`. The level may fall below zero.
    pub(crate) fn debit(&mut self, limit: &Limit, now: Time, credit: Credit) {
        self.set_level(limit, now, self.level_now(limit, now) - credit);
    }

    /// What could be spent at `now` if every promise were paid now: the level of the plain formula.
    pub(crate) fn level(&self, limit: &Limit, now: Time) -> Credit {
        self.level_now(limit, now) - self.rest().promised.sum()
    }

    /// What could be spent at `now` if every promise until `time` were paid now.
    pub(crate) fn level_until(&self, limit: &Limit, now: Time, time: Time) -> Credit {
        self.level(limit, now) + self.rest().promised.sum_from(just_after(time))
    }

    /// What is withheld for promises of a predecessor.
    pub(crate) fn pending_debits(&self) -> &PendingDebits {
        &self.rest().pending_debits
    }

    /// When the next promise starts, if there is one.
    pub(crate) fn next_promise(&self) -> Option<Time> {
        self.rest.as_ref()?.promised.next()
    }

    /// When the last promise starts, or the last step of what is withheld ends.
    pub(crate) fn last_promise(&self) -> Option<Time> {
        self.rest().promised.last()
    }

    /// What a successor that counts all promises as spent has to withhold right after `time`.
    pub(crate) fn outstanding_after(&self, time: Time) -> Credit {
        let just_after = just_after(time);
        self.rest().promised.sum_from(just_after) + self.rest().pending_debits.at(just_after.at)
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
        let promised = &self.rest().promised;
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
            self.spares(limit, gap, start, draw)?;
        }
        Ok(start)
    }

    /// Whether every start behind one at `start` can still pay; if not, the time from which on to
    /// look again.
    fn spares(&self, limit: &Limit, gap: Gap, start: Time, draw: Draw) -> Result<(), Time> {
        let capped = gap.potential.min(self.cap(limit, start));
        let promised = &self.rest().promised;
        match promised.first_short(limit, just_after(start), capped - draw.cost, draw.tier) {
            None => Ok(()),
            Some(short) => {
                let cap = self.cap(limit, short.at);
                Err(promised.last_short(limit, self.base, cap, short, draw).at)
            }
        }
    }

    fn rest(&self) -> &Rest {
        self.rest.as_deref().unwrap_or(&NOTHING)
    }

    fn rest_mut(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    fn spend(&mut self, limit: &Limit, start: PromisedStart) {
        let level = self.level_now(limit, start.key.at);
        self.peaks.note(start.key.at, level);
        if let Some(rest) = &mut self.rest {
            rest.levels.note(start.key.at, level - start.cost);
        }
        self.set_level(limit, start.key.at, level - start.cost);
    }

    fn set_level(&mut self, limit: &Limit, now: Time, level: Credit) {
        self.base = level.max(Credit::FLOOR) - limit.rate().refill(now);
    }

    /// The level behind what is past, before what is promised.
    fn level_now(&self, limit: &Limit, now: Time) -> Credit {
        (self.base + limit.rate().refill(now)).min(self.full_at(limit, now))
    }

    fn full_at(&self, limit: &Limit, time: Time) -> Credit {
        limit.full() - self.rest().pending_debits.at(time)
    }

    /// The highest potential that there can be at `time`.
    fn cap(&self, limit: &Limit, time: Time) -> Credit {
        self.full_at(limit, time) - limit.rate().refill(time)
    }
}

/// When the gap pays `demand`, from `from` on. Mostly it does at once, which needs no division.
fn pays_at(limit: &Limit, gap: Gap, from: Time, demand: Credit) -> Time {
    if gap.potential + limit.rate().refill(from) >= demand {
        return from;
    }
    limit.rate().time_to_refill(demand - gap.potential)
}

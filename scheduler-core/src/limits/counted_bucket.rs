//! What calls hold of a limit that counts them, each for some time.

use super::freeze::Freeze;
use super::timeline::StartKey;
use super::usage::{MOST_BLOCKS, Usage, UsageBlock, condensed, heard, told};
use super::window_start::start_in_window;
use crate::arithmetic::{Credit, Draw, WindowAlignment};
use crate::ids::Tier;
use crate::policy::Limit;
use rampmeter_protocol::time::{Span, Time};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Of a limit with more changes ahead than these, ends are rounded up, so that many fall together.
const EXACT_STEPS: usize = 4096;
/// To one part of so many of a holding's length.
const ROUNDED_PARTS: u64 = 1024;
/// Windows that are looked through one by one for an estimate; beyond, all are as long as the period.
const MOST_WALKED: usize = 64;
const NANOSECOND: Span = Span::from_nanos(1);

/// One call's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holding {
    cost: Credit,
    tier: Tier,
    until: Time,
    /// Whether it was over, or had never been heard of, when it was renewed.
    anew: bool,
}

/// The state of a limit that counts calls, and how that changes.
///
/// A call in flight holds its cost until it is settled or its lease ends, a call in a sliding window for as long as the window is, and
/// a call in a fixed window holds it for the whole window that it starts in. So what is held stands still within a fixed window.
///
/// Guarantees that never more is held than the limit has, whatever is committed later.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedBucket {
    /// Calls that are known by name: in fixed windows those ahead, otherwise those that are not over.
    held: BTreeMap<StartKey, Holding>,
    /// Until when something may be held by calls whose names are not known.
    nameless_until: Time,
    /// How much longer starts hold something than a predecessor told.
    longer: Span,
    /// From here on, what is told of as held once may be held in each of several windows.
    vague_from: Time,
    /// What is held now by all calls.
    ///
    /// The sum saturates at 2¹²⁵, and counts too little once it has. Commits stay within a full
    /// bucket, so only debits get there. It takes 1 176 debits of the largest cost (2¹¹⁴·⁸: 10⁹
    /// units, a period of 366 days) within one period. The upstream has then served a thousand times
    /// the largest capacity, and the limit protects nothing.
    total: Credit,
    /// By how much that changes, and when.
    steps: BTreeMap<Time, Credit>,
    /// What is promised for later.
    promised: Credit,
    /// No later change is a rise.
    last_rise: Time,
    /// When each name is forgotten.
    ends: BTreeSet<(Time, StartKey)>,
    /// When something last ended, as far as is known.
    last_over: Option<Time>,
    /// All before this is in the total.
    now: Time,
    pub(crate) freeze: Option<Freeze>,
}

fn alignment(limit: &Limit) -> Option<&WindowAlignment> {
    limit.counting().alignment()
}

fn release(limit: &Limit, time: Time) -> Time {
    limit.release(time).expect("a bucket is of its limit's kind")
}

impl CountedBucket {
    /// So much may be held by what has started or starts until `last`.
    pub(crate) fn new(limit: &Limit, now: Time, last: Time, credit: Credit) -> Self {
        CountedBucket::with(limit, now, &[UsageBlock { from: now, until: release(limit, last), credit }])
    }

    /// What a predecessor has told of at `then`. Windows are those of the wall clock; calls hold something for as long as they do,
    /// whatever that shows.
    pub(crate) fn of(limit: &Limit, then: Time, taken: &Usage) -> Self {
        let here = limit.unix_at_origin().saturating_add(then.nanos());
        let unix = alignment(limit).map_or(taken.unix_nanos, |_| here);
        let mut blocks = heard(then, unix, limit.spec().period, limit.rate(), taken);
        if taken.doubted {
            blocks.push(UsageBlock { from: then, until: release(limit, then), credit: limit.full() });
        }
        CountedBucket::with(limit, then, &blocks)
    }

    fn with(limit: &Limit, now: Time, blocks: &[UsageBlock]) -> Self {
        let blocks = || blocks.iter().filter(|block| block.credit > Credit::ZERO && block.until > now.max(block.from));
        let several = |block: &&UsageBlock| {
            alignment(limit).is_some_and(|alignment| block.until > alignment.window(block.from).ends)
        };
        let mut counted = CountedBucket {
            now,
            nameless_until: blocks().map(|block| block.until).max().unwrap_or(now),
            vague_from: blocks().filter(several).map(|block| block.from).min().unwrap_or(Time::NEVER),
            // What is held without a name may have been more a moment ago.
            last_over: blocks().next().map(|_| now),
            ..CountedBucket::default()
        };
        blocks().for_each(|block| counted.hold(limit, block.from, block.until, block.credit));
        counted
    }

    /// What a successor has to know, with all that may be granted meanwhile, and calls that may be renewed until `renewed`.
    pub(crate) fn taken(&self, limit: &Limit, now: Time, unknown: &[UsageBlock], renewed: Time) -> Usage {
        let renewable = limit.is_until_settled() && renewed > now;
        let mut blocks = condensed(self.blocks(limit, renewable.then(|| release(limit, renewed))));
        let unknown = unknown.iter().filter(|granted| granted.credit > Credit::ZERO);
        blocks.extend(unknown.map(|granted| UsageBlock { until: release(limit, granted.until), ..*granted }));
        told(now, limit.unix_at_origin().saturating_add(now.nanos()), limit.rate(), &blocks)
    }

    /// The earliest time from `from` on at which `draw` can be held.
    pub(crate) fn earliest(&self, limit: &Limit, from: Time, draw: Draw) -> Time {
        let (mut at, mut held, mut changes) = (from, Credit::ZERO, self.held_from(from).peekable());
        while at < Time::NEVER {
            while let Some((_, then)) = changes.next_if(|(time, _)| *time <= at) {
                held = then;
            }
            let found = match alignment(limit) {
                Some(alignment) if held + draw.cost <= limit.full().max(draw.cost) => {
                    start_in_window(limit, alignment, held, at, draw)
                }
                None if held + limit.demand(draw.cost, draw.tier) <= limit.full() => {
                    self.first_obstacle(limit, at, draw).map_or(Ok(at), Err)
                }
                Some(_) | None => Err(changes.peek().map_or(Time::NEVER, |(time, _)| *time)),
            };
            match found {
                Ok(start) => return start,
                Err(later) => at = later,
            }
        }
        Time::NEVER
    }

    /// The first time after `from` at which too much would be held for those who start then, if `draw` were held from `from` on.
    fn first_obstacle(&self, limit: &Limit, from: Time, draw: Draw) -> Option<Time> {
        let until = self.last_rise.min(release(limit, from) - NANOSECOND);
        let mut before = Credit::INFINITE;
        let mut changes = self.held_from(from).take_while(|(time, _)| *time <= until);
        let obstacle = changes.find(|(time, held)| {
            let rises = *held > std::mem::replace(&mut before, *held);
            rises && self.is_in_the_way(limit, *time, *held, draw)
        });
        obstacle.map(|(time, _)| time)
    }

    /// Whether those who start at `time` could not if `draw` were held then. Nobody is made to leave more than either has to.
    fn is_in_the_way(&self, limit: &Limit, time: Time, held: Credit, draw: Draw) -> bool {
        let starting = self.held.range(StartKey { at: time, serial: 0 }..=last_at(time));
        let tier = starting.map(|(_, holding)| holding.tier).min().unwrap_or(0).min(draw.tier);
        held + draw.cost + limit.headroom(tier) > limit.full()
    }

    /// Commits a start at a time that [`CountedBucket::earliest`] found.
    pub(crate) fn commit(&mut self, limit: &Limit, now: Time, key: StartKey, draw: Draw) {
        self.advance(limit, now);
        self.commit_until(limit, key, draw, self.end(limit, key.at));
    }

    fn commit_until(&mut self, limit: &Limit, key: StartKey, draw: Draw, until: Time) {
        self.hold(limit, key.at, until, draw.cost);
        self.name(limit, key, draw, until);
    }

    /// Commits a start that is held already without a name, if it is known where; what it holds ends at `end`, if that is known.
    pub(crate) fn promise_again(&mut self, limit: &Limit, key: StartKey, draw: Draw, end: Option<Time>) {
        let until = end.unwrap_or_else(|| release(limit, key.at));
        if key.at < self.vague_from && self.at(key.at.max(self.now)) >= draw.cost {
            // Under a longer period it ends later than the predecessor told. A snapshot lists the
            // last start first.
            if alignment(limit).is_none() {
                self.longer = self.longer.max(until.since(self.nameless_until));
            }
            self.hold(limit, until - self.longer, until, draw.cost);
            self.name(limit, key, draw, until);
        } else {
            self.commit_until(limit, key, draw, until);
        }
    }

    /// Names what is held. Of starts in a fixed window that are past nobody asks by name: there may be millions.
    fn name(&mut self, limit: &Limit, key: StartKey, draw: Draw, until: Time) {
        if key.at > self.now {
            self.promised = self.promised.saturating_add(draw.cost);
        } else if alignment(limit).is_some() {
            return;
        }
        self.held.insert(key, Holding { cost: draw.cost, tier: draw.tier, until, anew: false });
        self.ends.insert((forgotten(limit, key, until), key));
    }

    /// When what `key` holds ends, if it is known by name.
    pub(crate) fn lease(&self, key: StartKey) -> Option<Time> {
        self.held.get(&key).map(|holding| holding.until)
    }

    /// Takes a promised start back; false if it is past or unknown.
    pub(crate) fn withdraw(&mut self, limit: &Limit, key: StartKey) -> bool {
        key.at > self.now && self.release(limit, key)
    }

    /// Nothing is held by `key` any more; false if it is unknown.
    fn release(&mut self, limit: &Limit, key: StartKey) -> bool {
        let Some(Holding { cost, until, .. }) = self.held.remove(&key) else { return false };
        self.ends.remove(&(forgotten(limit, key, until), key));
        if key.at > self.now {
            self.promised -= cost;
        }
        self.hold(limit, key.at, until, -cost);
        true
    }

    /// The call of `key` is still in flight: it holds its cost for a lease from `now` on; if its last one has been over, anew. Whether
    /// there was room for that: of one that is held anew nobody can tell as long as it may be one of those without a name, which are
    /// counted beside it.
    pub(crate) fn renew(&mut self, limit: &Limit, now: Time, key: StartKey, draw: Draw) -> bool {
        if !limit.is_until_settled() {
            return true;
        }
        let (before, until) = (self.held.get(&key).copied(), release(limit, now));
        let holding = before.unwrap_or(Holding { cost: draw.cost, tier: draw.tier, until: self.now, anew: true });
        if until > holding.until {
            self.ends.remove(&(holding.until, key));
            self.ends.insert((until, key));
            self.held.insert(key, Holding { until, ..holding });
            self.hold(limit, holding.until, until, holding.cost);
        }
        let most = || self.held_from(self.now).take_while(|(time, _)| *time < until).map(|(_, held)| held).max();
        let fits = || most().is_none_or(|most| most <= limit.full().max(holding.cost));
        before.is_some() && (holding.anew && self.now < self.nameless_until || fits())
    }

    /// Learns that the call of `key` took `actual`, where it was charged something else. A call in flight is over then.
    pub(crate) fn correct(&mut self, limit: &Limit, now: Time, key: StartKey, (charged, actual): (Credit, Credit)) {
        if limit.is_until_settled() {
            self.release(limit, key);
            return;
        }
        let (more, until) = match self.held.get_mut(&key) {
            Some(holding) => (actual - std::mem::replace(&mut holding.cost, actual), holding.until),
            // What was not used in a window that has ended is of no use in another.
            None if alignment(limit).is_some_and(|alignment| alignment.window(key.at).has(now)) => {
                ((actual - charged).max(-self.at(now)), release(limit, now))
            }
            None => return,
        };
        if key.at > self.now {
            self.promised += more;
        }
        self.hold(limit, key.at, until, more);
    }

    /// Takes `credit` of what is there now.
    pub(crate) fn debit(&mut self, limit: &Limit, now: Time, credit: Credit) {
        self.hold(limit, now, release(limit, now), credit);
    }

    /// What has begun or ended until now is so.
    pub(crate) fn advance(&mut self, _: &Limit, now: Time) {
        let now = now.max(self.now);
        while let Some(entry) = self.steps.first_entry().filter(|entry| *entry.key() <= now) {
            if *entry.get() < Credit::ZERO {
                self.last_over = Some(*entry.key());
            }
            self.total = self.total.saturating_add(entry.remove());
        }
        let started = self.held.range((Excluded(last_at(self.now)), Included(last_at(now))));
        self.promised -= started.fold(Credit::ZERO, |sum, (_, holding)| sum + holding.cost);
        self.now = now;
        while let Some((_, key)) = self.ends.first().copied().filter(|(until, _)| *until <= self.now) {
            self.ends.pop_first();
            self.held.remove(&key);
        }
    }

    /// What could be held now; below zero by what is promised, in windows by what is promised in later ones.
    pub(crate) fn level(&self, limit: &Limit, now: Time) -> Credit {
        let rest = limit.full() - self.at(now);
        let Some(alignment) = alignment(limit) else { return rest - self.promised };
        let next = StartKey { at: alignment.window(now).ends, serial: 0 };
        let soon = self.held.range(..next).fold(Credit::ZERO, |sum, (_, holding)| sum + holding.cost);
        if self.promised > soon { rest.min(Credit::ZERO) - (self.promised - soon) } else { rest }
    }

    /// The most that could be held at some time until `time`.
    pub(crate) fn level_until(&self, limit: &Limit, now: Time, time: Time) -> Credit {
        let held = self.held_from(now).take_while(|(change, _)| *change <= time.max(now)).map(|(_, held)| held);
        limit.full() - held.min().unwrap_or(Credit::ZERO)
    }

    /// What is held now by those starts of `keys` that are ahead: in windows, of this one.
    pub(crate) fn held_now_by(&self, limit: &Limit, now: Time, keys: impl Iterator<Item = StartKey>) -> Credit {
        let is_now = |key: &StartKey| alignment(limit).is_some_and(|alignment| alignment.window(now).has(key.at));
        let held = keys.filter(is_now).filter_map(|key| self.held.get(&key));
        held.fold(Credit::ZERO, |sum, holding| sum + holding.cost)
    }

    /// When everything promised, `backlog` and `draw` will have started, if all is held to its end.
    pub(crate) fn paid_behind(&self, limit: &Limit, now: Time, backlog: Credit, draw: Draw) -> Time {
        let owed = backlog + limit.demand(draw.cost, draw.tier);
        if let Some(alignment) = alignment(limit) {
            return self.paid_by_windows(limit, alignment, now, owed);
        }
        let rounds = owed.over(limit.full()).saturating_sub(1);
        let rest = owed - limit.full().times(rounds);
        let fits = |(_, held): &(Time, Credit)| *held + rest <= limit.full();
        let at = self.held_from(now).find(fits).map_or(Time::NEVER, |(time, _)| time);
        at + Span::from_nanos(release(limit, now).since(now).nanos().saturating_mul(rounds))
    }

    /// The beginning of the window that pays the last of what is owed.
    fn paid_by_windows(&self, limit: &Limit, alignment: &WindowAlignment, now: Time, mut owed: Credit) -> Time {
        let (mut at, mut held, mut changes) = (now, Credit::ZERO, self.held_from(now).peekable());
        for _ in 0..MOST_WALKED {
            while let Some((_, then)) = changes.next_if(|(time, _)| *time <= at) {
                held = then;
            }
            let room = (limit.full() - held).max(Credit::ZERO);
            if owed <= room || at == Time::NEVER {
                return at;
            }
            owed -= room;
            at = alignment.window(at).ends;
        }
        let more = owed.over(limit.full()).saturating_sub(1);
        at + Span::from_nanos(limit.spec().period.nanos().saturating_mul(more))
    }

    /// When the next promise starts.
    pub(crate) fn next_promise(&self) -> Option<Time> {
        self.first_start_after(self.now)
    }

    fn first_start_after(&self, time: Time) -> Option<Time> {
        self.held.range((Excluded(last_at(time)), Unbounded)).next().map(|(key, _)| key.at)
    }

    /// When the last promise starts.
    pub(crate) fn last_promise(&self) -> Option<Time> {
        self.held.last_key_value().map(|(key, _)| key.at).filter(|at| *at > self.now)
    }

    /// Whether starts in this time are promised.
    pub(crate) fn promises_between(&self, from: Time, until: Time) -> bool {
        self.first_start_after(from.max(self.now)).is_some_and(|start| start <= until)
    }

    /// The last time of a start that may be counted, where that is one that is not over when what starts now is.
    pub(crate) fn outlasting(&self, limit: &Limit, now: Time) -> Option<Time> {
        let (end, _) = self.steps.last_key_value()?;
        (*end > release(limit, now)).then(|| *end - NANOSECOND)
    }

    /// Whether nothing is held or promised.
    pub(crate) fn is_unused(&self, _: &Limit, now: Time) -> bool {
        let over = self.steps.last_key_value().is_none_or(|(end, _)| *end <= now);
        over && self.held.is_empty() && self.at(now) == Credit::ZERO
    }

    /// The same under a limit of another size, or whose windows are cut otherwise. What was taken counts for as long as it would have,
    /// or would now.
    pub(crate) fn recast(&self, now: Time, from: &Limit, to: &Limit) -> Self {
        let up = |credit| to.rate().credit_of_micros(i128::from(from.rate().micros_up(credit)));
        let longer = from.counts_longer_as(to);
        let nameless = self.nameless(from, longer.unwrap_or(Span::ZERO));
        let blocks = condensed(nameless.blocks(from, None)).into_iter();
        let blocks: Vec<UsageBlock> = blocks.map(|block| UsageBlock { credit: up(block.credit), ..block }).collect();
        let mut recast = CountedBucket { last_over: self.last_over, ..CountedBucket::with(to, now, &blocks) };
        for (key, Holding { cost, tier, until, .. }) in &self.held {
            let until =
                alignment(to).map_or(*until + longer.unwrap_or(Span::ZERO), |alignment| alignment.window(key.at).ends);
            recast.commit_until(to, *key, Draw { cost: up(*cost), tier: *tier }, until);
        }
        if let (Some(longer), Some(last)) = (longer, self.last_over) {
            // What was held and is over is not known any more. It is no more than what can have been let in.
            let most = from.full().times(longer.nanos().div_ceil(from.spec().period.nanos()).saturating_add(1));
            let unknown = up(most.min(from.rate().credit(to.spec().capacity))) - recast.total;
            recast.hold(to, now, last + longer, unknown.max(Credit::ZERO));
        }
        recast
    }

    /// What is held without a name, for so much `longer`.
    fn nameless(&self, limit: &Limit, longer: Span) -> Self {
        let mut nameless = self.clone();
        for key in self.held.keys() {
            nameless.release(limit, *key);
        }
        for (end, change) in nameless.steps.clone() {
            nameless.hold(limit, end, end + longer, (-change).max(Credit::ZERO));
        }
        nameless
    }

    /// What is held, step by step, if all calls that are known by name hold it until `renewed` at least; window by window, as far as
    /// that many are told of.
    fn blocks(&self, limit: &Limit, renewed: Option<Time>) -> Vec<UsageBlock> {
        let mut blocks = Vec::new();
        let (mut from, mut held) = (self.now, self.total);
        for (until, change) in self.steps_if(renewed) {
            while let Some(alignment) = alignment(limit).filter(|_| held > Credit::ZERO && blocks.len() < MOST_BLOCKS)
                && let ends = alignment.window(from).ends
                && ends < until
            {
                blocks.push(UsageBlock { from, until: ends, credit: held });
                from = ends;
            }
            blocks.push(UsageBlock { from, until, credit: held });
            (from, held) = (until.max(from), held + change);
        }
        blocks.retain(|block| block.credit > Credit::ZERO && block.from < block.until);
        blocks
    }

    /// The steps to the end of time, if all calls that are known by name hold what they do until `renewed` at least.
    fn steps_if(&self, renewed: Option<Time>) -> Vec<(Time, Credit)> {
        let mut steps: Vec<(Time, Credit)> = self.steps.iter().map(|(time, change)| (*time, *change)).collect();
        if let Some(end) = renewed {
            let known = steps.len();
            let earlier = self.held.values().filter(|holding| holding.until < end);
            steps.extend(earlier.map(|holding| (holding.until, holding.cost)));
            let longer = steps[known..].iter().fold(Credit::ZERO, |sum, (_, cost)| sum + *cost);
            steps.push((end, -longer));
            steps.sort_by_key(|(time, _)| *time);
        }
        steps.push((Time::NEVER, Credit::ZERO));
        steps
    }

    /// Changes what is held in this time, as far as it is ahead; in windows, in each that this time meets.
    fn hold(&mut self, limit: &Limit, from: Time, until: Time, credit: Credit) {
        if until <= from.max(self.now) || credit == Credit::ZERO {
            return;
        }
        let whole =
            |alignment: &WindowAlignment| (alignment.window(from).starts, alignment.window(until - NANOSECOND).ends);
        let (from, until) = alignment(limit).map_or((from, until), whole);
        if from > self.now {
            self.step(from, credit);
        } else {
            self.total = self.total.saturating_add(credit);
        }
        if until < Time::NEVER {
            self.step(until, -credit);
        }
    }

    /// The end of what is held from `at` on.
    fn end(&self, limit: &Limit, at: Time) -> Time {
        let exact = release(limit, at);
        if self.steps.len() < EXACT_STEPS || alignment(limit).is_some() {
            return exact;
        }
        let part = (exact.since(at).nanos() / ROUNDED_PARTS).max(1);
        Time::from_nanos(exact.nanos().div_ceil(part).saturating_mul(part))
    }

    fn step(&mut self, at: Time, credit: Credit) {
        let step = self.steps.entry(at).or_default();
        *step = step.saturating_add(credit);
        match (*step).cmp(&Credit::ZERO) {
            Ordering::Less => {}
            Ordering::Equal => drop(self.steps.remove(&at)),
            Ordering::Greater => self.last_rise = self.last_rise.max(at),
        }
    }

    /// What is held at `time`, which is not before now.
    fn at(&self, time: Time) -> Credit {
        self.steps.range(..=time).fold(self.total, |sum, (_, change)| sum.saturating_add(*change))
    }

    /// What is held from `from` on, and from each change behind it.
    fn held_from(&self, from: Time) -> impl Iterator<Item = (Time, Credit)> {
        let first = self.at(from);
        let changes = self.steps.range((Excluded(from), Unbounded)).scan(first, |held, (time, change)| {
            *held = held.saturating_add(*change);
            Some((*time, *held))
        });
        std::iter::once((from, first)).chain(changes)
    }
}

/// When the name of a start at `key` is forgotten that holds something until `until`.
fn forgotten(limit: &Limit, key: StartKey, until: Time) -> Time {
    if alignment(limit).is_some() { key.at } else { until }
}

fn last_at(time: Time) -> StartKey {
    StartKey { at: time, serial: u64::MAX }
}

//! What calls hold of a limit, each for some time from its start on.

use crate::credit::Credit;
use crate::limit::{Limit, Tier};
use crate::taken::Block;
use crate::timeline::{Draw, Key};
use rampmeter_protocol::time::{Span, Time};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Of a limit with more changes ahead than these, ends are rounded up, so that many fall together.
const EXACT_STEPS: usize = 4096;
/// To one part of so many of a holding's length.
const ROUNDED_PARTS: u64 = 1024;

/// One call's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holding {
    cost: Credit,
    tier: Tier,
    until: Time,
    /// Whether it was over, or had never been heard of, when it was renewed.
    anew: bool,
}

/// What is held by whom, and how that changes.
///
/// Guarantees that never more is held than the limit has, whatever is committed later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings {
    /// Whoever is known by name.
    held: BTreeMap<Key, Holding>,
    /// Until when something may be held by others, of whom nobody knows the names.
    others_until: Time,
    /// What is held now, by whomever.
    total: Credit,
    /// By how much that changes, and when.
    steps: BTreeMap<Time, Credit>,
    /// What is promised for later.
    promised: Credit,
    /// No later change is a rise.
    last_rise: Time,
    /// When each ends that is known by name.
    ends: BTreeSet<(Time, Key)>,
    /// When something last ended, as far as is known.
    last_over: Option<Time>,
    /// All before this is in the total.
    now: Time,
}

impl Holdings {
    /// What is held by others from `now` on.
    pub(crate) fn with(now: Time, blocks: &[Block]) -> Self {
        let others_until = blocks.iter().map(|block| block.until).max().unwrap_or(now);
        // What is held by others may have been more a moment ago.
        let last_over = (!blocks.is_empty()).then_some(now);
        let mut holdings = Holdings { now, others_until, last_over, ..Holdings::default() };
        blocks.iter().for_each(|block| holdings.hold(block.from, block.until, block.credit));
        holdings
    }

    /// The earliest time from `from` on at which `draw` can be held for `length`.
    pub(crate) fn earliest(&self, limit: &Limit, length: Span, from: Time, draw: Draw) -> Time {
        let (mut at, mut held) = (from, self.at(from));
        while at < Time::NEVER {
            let short = held + limit.demand(draw.cost, draw.tier) > limit.full();
            let until = if short { Time::NEVER } else { self.last_rise.min(at + length - Span::from_nanos(1)) };
            match self.first_obstacle(limit, (at, until), held, draw, short) {
                Some((time, then)) => (at, held) = (time, then),
                None => return if short { Time::NEVER } else { at },
            }
        }
        Time::NEVER
    }

    /// The next change, where too much is held at present; otherwise the first at which too much would be.
    fn first_obstacle(
        &self,
        limit: &Limit,
        (from, until): (Time, Time),
        mut held: Credit,
        draw: Draw,
        short: bool,
    ) -> Option<(Time, Credit)> {
        if until <= from {
            return None;
        }
        for (time, change) in self.steps.range((Excluded(from), Included(until))) {
            held += *change;
            if short || *change > Credit::ZERO && self.is_in_the_way(limit, *time, held, draw) {
                return Some((*time, held));
            }
        }
        None
    }

    /// Whether those who start at `time` could not if `draw` were held then. Nobody is made to leave more than either has to.
    fn is_in_the_way(&self, limit: &Limit, time: Time, held: Credit, draw: Draw) -> bool {
        let starting = self.held.range(Key { at: time, serial: 0 }..=last_at(time));
        let tier = starting.map(|(_, holding)| holding.tier).min().unwrap_or(0).min(draw.tier);
        held + draw.cost + limit.headroom(tier) > limit.full()
    }

    /// Commits a start at a time that [`Holdings::earliest`] found, held until `until`.
    pub(crate) fn commit(&mut self, key: Key, draw: Draw, until: Time) {
        self.hold(key.at, until, draw.cost);
        self.name(key, draw, until);
    }

    /// Names what is held already.
    pub(crate) fn name(&mut self, key: Key, draw: Draw, until: Time) {
        if key.at > self.now {
            self.promised += draw.cost;
        }
        self.held.insert(key, Holding { cost: draw.cost, tier: draw.tier, until, anew: false });
        self.ends.insert((until, key));
    }

    /// When what `key` holds ends, if it is known by name.
    pub(crate) fn end_of(&self, key: Key) -> Option<Time> {
        self.held.get(&key).map(|holding| holding.until)
    }

    /// Takes a promised start back; false if it is past or unknown.
    pub(crate) fn withdraw(&mut self, key: Key) -> bool {
        key.at > self.now && self.release(key).is_some()
    }

    /// Nothing is held by `key` any more. What was, if it is known.
    pub(crate) fn release(&mut self, key: Key) -> Option<Credit> {
        let Holding { cost, until, .. } = self.held.remove(&key)?;
        self.ends.remove(&(until, key));
        if key.at > self.now {
            self.promised -= cost;
        }
        self.hold(key.at, until, -cost);
        Some(cost)
    }

    /// What `key` holds, it holds until `until` at least; if it has been over, anew from now on. Whether there was room for that: of
    /// one that is held anew nobody can tell as long as it may be one of those without a name, which are counted beside it.
    pub(crate) fn renew(&mut self, limit: &Limit, key: Key, draw: Draw, until: Time) -> bool {
        let before = self.held.get(&key).copied();
        let holding = before.unwrap_or(Holding { cost: draw.cost, tier: draw.tier, until: self.now, anew: true });
        if until > holding.until {
            self.ends.remove(&(holding.until, key));
            self.ends.insert((until, key));
            self.held.insert(key, Holding { until, ..holding });
            self.hold(holding.until, until, holding.cost);
        }
        let fits = || self.most_between(self.now, until) <= limit.full().max(holding.cost);
        before.is_some() && (holding.anew && self.now < self.others_until || fits())
    }

    /// The most that is held from `from` on and before `until`.
    fn most_between(&self, from: Time, until: Time) -> Credit {
        if until <= from {
            return Credit::ZERO;
        }
        let (mut held, mut most) = (self.at(from), self.at(from));
        for (_, change) in self.steps.range((Excluded(from), Excluded(until))) {
            held += *change;
            most = most.max(held);
        }
        most
    }

    /// Corrects what `key` holds.
    pub(crate) fn correct(&mut self, key: Key, actual: Credit) {
        let Some(holding) = self.held.get_mut(&key) else { return };
        let (more, until) = (actual - holding.cost, holding.until);
        holding.cost = actual;
        if key.at > self.now {
            self.promised += more;
        }
        self.hold(key.at, until, more);
    }

    /// What has begun or ended until now is so.
    pub(crate) fn advance(&mut self, now: Time) {
        let now = now.max(self.now);
        while let Some(entry) = self.steps.first_entry().filter(|entry| *entry.key() <= now) {
            if *entry.get() < Credit::ZERO {
                self.last_over = Some(*entry.key());
            }
            self.total += entry.remove();
        }
        let started = self.held.range((Excluded(last_at(self.now)), Included(last_at(now))));
        self.promised -= started.fold(Credit::ZERO, |sum, (_, holding)| sum + holding.cost);
        self.now = now;
        while let Some((_, key)) = self.ends.first().copied().filter(|(until, _)| *until <= self.now) {
            self.ends.pop_first();
            self.held.remove(&key);
        }
    }

    /// What could be held now; below zero by what is promised.
    pub(crate) fn level(&self, limit: &Limit, now: Time) -> Credit {
        limit.full() - self.at(now) - self.promised
    }

    /// The most that could be held at some time until `time`.
    pub(crate) fn most_until(&self, limit: &Limit, now: Time, time: Time) -> Credit {
        let (mut held, mut least) = (self.at(now), self.at(now));
        for (_, change) in self.steps.range((Excluded(now), Included(time.max(now)))) {
            held += *change;
            least = least.min(held);
        }
        limit.full() - least
    }

    /// When everything promised, `backlog` and `draw` will have started, if all is held to its end.
    pub(crate) fn paid_behind(&self, limit: &Limit, length: Span, now: Time, backlog: Credit, draw: Draw) -> Time {
        let owed = backlog + limit.demand(draw.cost, draw.tier);
        let rounds = owed.over(limit.full()).saturating_sub(1);
        let rest = owed - limit.full().times(rounds);
        let (mut at, mut held) = (now, self.at(now));
        for (time, change) in self.steps.range((Excluded(now), Unbounded)) {
            if held + rest <= limit.full() {
                break;
            }
            (at, held) = (*time, held + *change);
        }
        at + Span::from_nanos(length.nanos().saturating_mul(rounds))
    }

    /// When the next promise starts, and the last.
    pub(crate) fn promises(&self) -> Option<(Time, Time)> {
        let mut promises = self.held.range((Excluded(last_at(self.now)), Unbounded));
        let first = promises.next()?.0.at;
        Some((first, promises.next_back().map_or(first, |(key, _)| key.at)))
    }

    /// When nothing is held any more.
    pub(crate) fn last_end(&self) -> Option<Time> {
        self.steps.last_key_value().map(|(time, _)| *time)
    }

    /// Whoever is known by name, with the time until which it holds how much.
    pub(crate) fn named(&self) -> impl Iterator<Item = (Key, Draw, Time)> {
        self.held.iter().map(|(key, holding)| (*key, Draw { cost: holding.cost, tier: holding.tier }, holding.until))
    }

    /// Whether nobody holds anything.
    pub(crate) fn is_unused(&self) -> bool {
        self.held.is_empty() && self.steps.is_empty() && self.total == Credit::ZERO
    }

    /// What is held, step by step.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let (mut from, mut held, mut blocks) = (self.now, self.total, Vec::new());
        for (time, change) in &self.steps {
            blocks.push(Block { from, until: *time, credit: held });
            (from, held) = (*time, held + *change);
        }
        blocks.push(Block { from, until: Time::NEVER, credit: held });
        blocks.retain(|block| block.credit > Credit::ZERO && block.from < block.until);
        blocks
    }

    /// The same if whatever is held were held for so much `more`. What was held and is over is not known any more: until it would be
    /// over as well, there may be as much of it as `most` in all.
    pub(crate) fn lengthened(&self, more: Span, most: Credit) -> Self {
        let (mut longer, mut nameless) = (self.clone(), self.clone());
        for (key, holding) in &self.held {
            nameless.release(*key);
            longer.last_until(*key, holding.until + more);
        }
        for Block { until, credit, .. } in nameless.parts() {
            longer.hold(until, until + more, credit);
        }
        let unknown = (most - longer.total).max(Credit::ZERO);
        if let Some(last) = self.last_over {
            longer.hold(self.now, last + more, unknown);
        }
        longer
    }

    /// What `key` holds ends at `until`.
    fn last_until(&mut self, key: Key, until: Time) {
        let Some(holding) = self.held.get_mut(&key) else { return };
        let (cost, before) = (holding.cost, std::mem::replace(&mut holding.until, until));
        self.ends.remove(&(before, key));
        self.ends.insert((until, key));
        self.hold(before, until, cost);
    }

    /// What is held, part by part, where what began first ends first.
    fn parts(&self) -> Vec<Block> {
        let (mut open, mut parts) = (VecDeque::from([(self.now, self.total)]), Vec::new());
        for (time, change) in &self.steps {
            if *change > Credit::ZERO {
                open.push_back((*time, *change));
            }
            let mut ending = -*change;
            while ending > Credit::ZERO
                && let Some((from, held)) = open.pop_front()
            {
                let credit = held.min(ending);
                parts.push(Block { from, until: *time, credit });
                ending -= credit;
                if held > credit {
                    open.push_front((from, held - credit));
                }
            }
        }
        parts
    }

    /// Changes what is held in this time, as far as it is ahead.
    pub(crate) fn hold(&mut self, from: Time, until: Time, credit: Credit) {
        if until <= from.max(self.now) || credit == Credit::ZERO {
            return;
        }
        if from > self.now {
            self.step(from, credit);
        } else {
            self.total += credit;
        }
        if until < Time::NEVER {
            self.step(until, -credit);
        }
    }

    /// The end of what is held from `at` on for `length`.
    pub(crate) fn end(&self, at: Time, length: Span) -> Time {
        let exact = at + length;
        if self.steps.len() < EXACT_STEPS {
            return exact;
        }
        let part = (length.nanos() / ROUNDED_PARTS).max(1);
        Time::from_nanos(exact.nanos().div_ceil(part).saturating_mul(part))
    }

    fn step(&mut self, at: Time, credit: Credit) {
        let step = self.steps.entry(at).or_default();
        *step += credit;
        match (*step).cmp(&Credit::ZERO) {
            Ordering::Less => {}
            Ordering::Equal => drop(self.steps.remove(&at)),
            Ordering::Greater => self.last_rise = self.last_rise.max(at),
        }
    }

    /// What is held at `time`, which is not before now.
    fn at(&self, time: Time) -> Credit {
        self.steps.range(..=time).fold(self.total, |sum, (_, change)| sum + *change)
    }
}

fn last_at(time: Time) -> Key {
    Key { at: time, serial: u64::MAX }
}

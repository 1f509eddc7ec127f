//! Marks: what the store has to hold before permits may be granted.

use crate::bill::{Bill, KeyName};
use crate::bucket::Bucket;
use crate::counter::Unknown;
use crate::credit::Credit;
use crate::event::Ask;
pub use crate::fence::MarkNumber;
use crate::fence::{AtOnce, Fence, KeysCovered, MAX_LISTED, NEAR, NewMark};
use crate::ledger::Backlog;
use crate::limit::Limit;
use crate::listing::keep_first;
use crate::refusal::Refusal;
use crate::resource::{ClassId, LimitId};
use crate::scheduler::{Reason, Scheduler, Wakeup};
use crate::slab::Slot;
use crate::snapshot::{KeyMark, KeyMarks, LevelMark, WithheldMark, signed_nanos};
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Steps in which promises for later are told to a successor. As long as one step is not longer than a limit's period, a
/// successor withholds nothing for long that could be used.
const MAX_STEPS: u64 = 16;
/// Steps that one bucket's predecessors can leave: a dozen crashes within seconds.
const MAX_WITHHELD: usize = 128;
/// How long those who are answered at once wait for a mark. Then it is for their senders to decide.
const LONGEST_HOLD: Span = Span::from_millis(500);

/// A state to be written to the store, in which all that may be granted under it counts as spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// For [`Event::Marked`](crate::event::Event::Marked).
    pub number: MarkNumber,
    /// All buckets.
    pub levels: Vec<LevelMark>,
    /// The buckets of keys.
    pub keys: KeyMarks,
    /// What part of the levels' distance from the present ones may still be granted: the budget, in millionths by limit.
    pub budget: Vec<u64>,
}

/// A request that is to be answered at once, as soon as the store allows it.
#[derive(Clone, Debug)]
pub(crate) struct Held<R> {
    pub(crate) ask: Ask<R>,
    since: Time,
    /// When it might start.
    start: Time,
}

impl<R: Clone> Scheduler<R> {
    /// From now on grants only what marks in a store cover, of which there is none yet.
    ///
    /// Whoever calls this has to write a [`mark`](Scheduler::mark) when [`next_mark`](Scheduler::next_mark) wants one, and
    /// to say when the store holds it.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.fence = Some(Fence::new(&self.resource));
        self
    }

    /// When the next mark is to be written, or as soon as it is known what became of the last one. None if the scheduler is
    /// not [fenced](Scheduler::fenced).
    #[must_use]
    pub fn next_mark(&self) -> Option<Time> {
        self.fence.as_ref().map(Fence::due)
    }

    /// The mark to be written at `now`. None if the scheduler is not [fenced](Scheduler::fenced), or if too many were
    /// taken of which nobody has said whether the store holds them.
    pub fn mark(&mut self, now: Time) -> Option<Mark> {
        self.ledger.advance(now);
        let at_once = self.grantable_at_once(now);
        let mut keys = self.keys_to_cover(now);
        if keys.others <= now + NEAR {
            keys.budgets = self.key_budgets(now);
        }
        let new = self.fence.as_mut()?.open(&self.resource, now, &at_once, &keys)?;
        let steps = steps(now, new.near.0, new.far.0);
        let shared = || self.limits().filter(|(_, limit)| !limit.is_keyed());
        let levels = shared().map(|(id, limit)| self.fenced_level(now, id, limit, &new, &steps));
        let budget = shared().map(|(id, limit)| limit.rate().micros_up(new.budget(id, now)));
        let keys = self.fenced_keys(now, &keys);
        Some(Mark { number: new.number, levels: levels.collect(), keys, budget: budget.collect() })
    }

    /// Until when a successor gives keys nothing: those with far promises, or wanted ones, each; the others until near starts are past.
    fn keys_to_cover(&mut self, now: Time) -> KeysCovered {
        let near = now + NEAR;
        let mut until: BTreeMap<KeyName, Time> = BTreeMap::new();
        let mut cover = |name: KeyName, time: Time| {
            let known = until.entry(name).or_insert(time);
            *known = time.max(*known);
        };
        let mut owing: Vec<(Time, Slot)> = self.ledger.keys.owing(now).filter(|(paid, _)| *paid > near).collect();
        // One more than are listed says how long the others wait.
        keep_first(&mut owing, MAX_LISTED + 1, |(a, _), (b, _)| b.cmp(a));
        for (paid, slot) in owing {
            let known = self.ledger.keys.get(slot).expect("a bucket that owes is there");
            cover((known.limit, Arc::clone(&known.key)), paid);
        }
        for held in self.held.iter().filter(|held| held.start > near) {
            held.ask.bill.keyed().for_each(|charge| cover(charge.name(), held.start + NEAR));
        }
        KeysCovered::new(&self.resource, near, until)
    }

    fn fenced_keys(&self, now: Time, keys: &KeysCovered) -> KeyMarks {
        let empty = keys.listed.iter().map(|((limit, key), until)| {
            let limit = &self.resource.limits()[limit.index()];
            let micros = limit.rate().micros(-limit.rate().refill_within(until.since(now)));
            let taken = Bucket::empty_until(limit, now, *until).taken(limit, now, &[], now);
            KeyMark { limit: limit.name().clone(), key: key.to_string(), micros, taken }
        });
        let budgets = keys.budgets.iter().filter(|(name, _)| !keys.listed.contains_key(*name));
        let listed = budgets.map(|(name, budget)| self.listed_key(now, name, *budget));
        let (known, unknown): (Vec<LimitId>, Vec<LimitId>) =
            self.resource.keyed_limits().partition(|limit| keys.budgets.are_for(&self.resource, *limit));
        let known = known.iter().map(|limit| self.other_keys(now, *limit, keys.budgets.of_others(*limit)));
        // As long as the keys of a predecessor are empty, so are those of a successor.
        let begins = unknown.iter().filter_map(|limit| self.ledger.keys.empty_at(now, *limit));
        let others = begins.fold(keys.others, Time::max);
        KeyMarks {
            listed: empty.chain(listed).collect(),
            known: known.collect(),
            others_empty_in: Some(signed_nanos(now, others)),
        }
    }

    /// When whoever is held has been kept waiting for too long.
    pub(crate) fn next_release(&self) -> Option<Wakeup> {
        self.held.front().map(|held| Wakeup { at: held.since + LONGEST_HOLD, reason: Reason::Held })
    }

    /// The store holds a mark: whoever was held for it goes on.
    pub(crate) fn marked(&mut self, now: Time, number: MarkNumber) {
        let Some(fence) = &mut self.fence else { return };
        fence.confirm(number);
        self.release_held(now);
        for Held { ask, since, .. } in std::mem::take(&mut self.held) {
            let before = self.held.len();
            self.ask(now, ask);
            // Who is held again has been held all the time.
            self.held.range_mut(before..).for_each(|held| held.since = since);
        }
        self.ledger.note_change();
    }

    pub(crate) fn doubt(&mut self) {
        if let Some(fence) = &mut self.fence {
            fence.doubt();
        }
    }

    /// Whether nobody else can have led since the last [`Event::Doubt`](crate::event::Event::Doubt).
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.fence.as_ref().is_none_or(Fence::is_trusted)
    }

    /// Whether a mark with this number was taken since the last doubt.
    #[must_use]
    pub fn settles_doubt(&self, number: MarkNumber) -> bool {
        self.fence.as_ref().is_none_or(|fence| fence.settles_doubt(number))
    }

    /// Whatever is in stock may have been spent by somebody who is not known. Nobody waits for it longer than it takes to
    /// come in again.
    pub(crate) fn distrust_stock(&mut self, now: Time, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
        self.ledger.empty(now);
        self.doubt();
    }

    /// Whether the store allows this to be granted.
    pub(crate) fn is_covered(&self, bill: &Bill, start: Time) -> bool {
        self.fence.as_ref().is_none_or(|fence| fence.covers(&self.resource, bill, start))
    }

    pub(crate) fn store_lost(&mut self, now: Time) {
        let Some(fence) = &mut self.fence else { return };
        fence.store_lost(&self.resource, now);
        self.ledger.note_change();
    }

    /// Keeps a request that is to be answered at once until the store holds a mark that covers it.
    pub(crate) fn hold(&mut self, now: Time, ask: Ask<R>, start: Time) {
        let bound = self.resource.bounds().max_waiting;
        if self.held.len() >= bound {
            return self.refuse(ask.to, ask.id, Refusal::Unavailable);
        }
        self.fence.as_mut().expect("only a fence holds anybody").want(&self.resource, &ask.bill);
        self.held.push_back(Held { ask, since: now, start });
    }

    /// Sends those elsewhere whom the store has kept waiting for too long.
    pub(crate) fn release_held(&mut self, now: Time) {
        while self.held.front().is_some_and(|held| held.since + LONGEST_HOLD <= now) {
            let Held { ask, .. } = self.held.pop_front().expect("there is a first");
            self.refuse(ask.to, ask.id, Refusal::Unavailable);
        }
    }

    /// A level with everything promised spent, and the budgets with it.
    fn fenced_level(&self, now: Time, id: LimitId, limit: &Limit, new: &NewMark, steps: &BTreeSet<Time>) -> LevelMark {
        let (bucket, rate) = (self.ledger.bucket(id), limit.rate());
        let unknown = [
            Unknown { from: now, until: new.near.0, credit: new.near.1[id.index()] },
            Unknown { from: new.near.0, until: new.far.0, credit: new.far.1[id.index()] },
        ];
        let taken = bucket.taken(limit, now, &unknown, new.near.0);
        let inherited = bucket.withheld().steps().map(|(until, _)| until).filter(|until| *until > now);
        let ends: BTreeSet<Time> = steps.iter().copied().chain(inherited).collect();
        let from = std::iter::once(now).chain(ends.iter().copied());
        let withheld = from.zip(&ends).map(|(from, until)| WithheldMark {
            nanos: until.since(now).nanos(),
            micros: rate.micros_up(bucket.outstanding_after(from) + new.budget(id, from)),
        });
        LevelMark {
            limit: limit.name().clone(),
            micros: rate.micros(self.ledger.level(id, now) - new.budget(id, now)),
            learned: self.ledger.book(id).learned_mark(now),
            withheld: if taken.is_some() { Vec::new() } else { merged(withheld.collect()) },
            taken,
        }
    }

    fn grantable_at_once(&self, now: Time) -> AtOnce {
        let near = self.bills_of(self.held.iter().filter(|held| held.start <= now + NEAR));
        // Those who are held do not know of each other: any of them may be pushed back.
        let far = self.bills_of(self.held.iter());
        let wanted = self.held.iter().map(|held| held.start + NEAR);
        let promised = self.limits().filter_map(|(id, _)| self.ledger.bucket(id).last_promise());
        AtOnce {
            near: self.limits().map(|(id, limit)| near.of(id) + self.startable(now, id, limit)).collect(),
            far: self.limits().map(|(id, _)| far.of(id)).collect(),
            levels: self.limits().map(|(id, _)| self.ledger.level(id, now)).collect(),
            near_levels: self.limits().map(|(id, _)| self.near_level(now, id)).collect(),
            last: wanted.chain(promised).max().unwrap_or(now),
        }
    }

    fn bills_of<'a>(&'a self, held: impl Iterator<Item = &'a Held<R>>) -> Backlog
    where
        R: 'a,
    {
        let mut bills = Backlog::none(&self.resource);
        held.for_each(|held| bills.add(&self.resource, &held.ask.bill));
        bills
    }

    /// What those want who are held.
    pub(crate) fn bills_held(&self) -> impl Iterator<Item = &Bill> {
        self.held.iter().map(|held| &held.ask.bill)
    }

    fn near_level(&self, now: Time, id: LimitId) -> Credit {
        // What comes in at once is asked for when it does, and not long before.
        let soon = self.resource.horizon() + self.resource.reservation();
        let tokens = self.resource.limits()[id.index()].has_tokens();
        self.ledger.level_until(id, now, now + if tokens { NEAR } else { soon })
    }

    /// What those who wait could take from `limit` now, which is no more than there is for their class.
    fn startable(&self, now: Time, id: LimitId, limit: &Limit) -> Credit {
        let level = self.near_level(now, id);
        let of_class = |class: ClassId| {
            let stock = (level - limit.headroom(self.tier(class))).max(Credit::ZERO);
            self.backlog_through(class).of(id).min(stock)
        };
        let classes = (0..self.lines.len()).filter(|index| !self.lines[*index].is_empty());
        classes.map(|index| of_class(ClassId(index as u8))).max().unwrap_or(Credit::ZERO)
    }

    fn limits(&self) -> impl Iterator<Item = (LimitId, &Limit)> {
        self.resource.limits().iter().enumerate().map(|(index, limit)| (LimitId(index as u8), limit))
    }
}

impl NewMark {
    /// What a successor charges for starts from `time` on, right after it.
    fn budget(&self, id: LimitId, time: Time) -> Credit {
        let of = |(until, budget): &(Time, Vec<Credit>)| if time < *until { budget[id.index()] } else { Credit::ZERO };
        of(&self.near) + of(&self.far)
    }
}

/// The ends of the steps in which a successor learns what to withhold: the first at `near`, then equal ones until `far`.
fn steps(now: Time, near: Time, far: Time) -> BTreeSet<Time> {
    let (first, rest) = (near.since(now).nanos(), far.since(near).nanos());
    let count = rest.div_ceil(first.max(1)).min(MAX_STEPS);
    let step = |index: u64| near + Span::from_nanos((u128::from(rest) * u128::from(index) / u128::from(count)) as u64);
    std::iter::once(near).chain((1..=count).map(step)).collect()
}

/// Steps of equal amounts as one, and no more than the bound: of too many, some last until the next one ends.
fn merged(steps: Vec<WithheldMark>) -> Vec<WithheldMark> {
    let mut merged: Vec<WithheldMark> = Vec::new();
    let surplus = steps.len().saturating_sub(MAX_WITHHELD);
    for (index, step) in steps.into_iter().enumerate() {
        match merged.last_mut() {
            Some(last) if last.micros == step.micros || index <= surplus => last.nanos = step.nanos,
            Some(_) | None => merged.push(step),
        }
    }
    merged.retain(|step| step.micros > 0);
    merged
}

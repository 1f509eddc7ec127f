//! Marks: what the store has to hold before permits may be granted.

use crate::bill::Bill;
use crate::bucket::Bucket;
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
use crate::snapshot::{FreezeMark, KeyMark, KeyMarks, LevelMark, NewPage, WithheldMark, signed_nanos};
use crate::taken::Block;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeSet;
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
    /// What the upstream has asked to wait with.
    pub freezes: Vec<FreezeMark>,
    /// What part of the levels' distance from the present ones may still be granted: the budget, in millionths by limit.
    pub budget: Vec<u64>,
    /// What the store has to hold before this mark: pages that it names.
    pub pages: Vec<NewPage>,
}

/// A request that is to be answered at once, as soon as the store allows it.
#[derive(Clone, Debug)]
pub(crate) struct Held<R> {
    pub(crate) ask: Ask<R>,
    since: Time,
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

    /// The same, which keeps its pages of keys in places from this one on. Schedulers that contend for a term have different ones, so that
    /// none writes over what another has named.
    #[must_use]
    pub fn with_pages_from(mut self, place: u32) -> Self {
        self.ledger.keys.pages.begin_at(place);
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
        if self.fence.as_ref()?.is_full() {
            return None;
        }
        let at_once = self.grantable_at_once(now);
        let mut keys = self.keys_to_cover(now);
        let mut pages = Vec::new();
        if keys.others <= now + NEAR {
            (keys.budgets, pages) = self.key_budgets(now);
        }
        let fence = self.fence.as_mut()?;
        self.ledger.keys.pages.drop_empty(self.epoch, fence.next());
        let new = fence.open(&self.resource, (now, self.serial), &at_once, &keys, pages.len());
        let shared = || self.limits().filter(|(_, limit)| !limit.is_keyed());
        let levels = shared().map(|(id, limit)| self.fenced_level(now, id, limit, &new));
        let budget = shared().map(|(id, limit)| limit.rate().micros_up(new.budget[id.index()]));
        let (levels, budget) = (levels.collect(), budget.collect());
        let (keys, freezes) = (self.fenced_keys(now, &keys), self.freeze_marks(now));
        Some(Mark { number: new.number, levels, keys, freezes, budget, pages })
    }

    /// Until when a successor gives keys nothing: those with far promises each; the others until near starts are past.
    fn keys_to_cover(&mut self, now: Time) -> KeysCovered {
        let near = now + NEAR;
        let mut owing: Vec<(Time, Slot)> = self.ledger.keys.owing(now).filter(|(paid, _)| *paid > near).collect();
        // One more than are listed says how long the others wait.
        keep_first(&mut owing, MAX_LISTED + 1, |(a, _), (b, _)| b.cmp(a));
        let until = owing.into_iter().map(|(paid, slot)| {
            let known = self.ledger.keys.get(slot).expect("a bucket that owes is there");
            ((known.limit, Arc::clone(&known.key)), paid)
        });
        KeysCovered::new(&self.resource, near, until.collect())
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
            pages: if keys.budgets.are_kept() {
                self.key_pages(now, |limit| keys.budgets.of_others(limit))
            } else {
                Vec::new()
            },
        }
    }

    /// When whoever is held has been kept waiting for too long.
    pub(crate) fn next_release(&self) -> Option<Wakeup> {
        let held = self.held.front().map(|held| held.since).into_iter().chain(self.pending.oldest()).min()?;
        Some(Wakeup { at: held + LONGEST_HOLD, reason: Reason::Held })
    }

    /// The store holds a mark: whoever was held for it goes on.
    pub(crate) fn marked(&mut self, now: Time, number: MarkNumber) {
        let Some(fence) = &mut self.fence else { return };
        fence.confirm(number);
        self.release_held(now);
        self.tell_promised(now);
        for Held { ask, since, .. } in std::mem::take(&mut self.held) {
            let before = self.held.len();
            self.ask(now, ask);
            // Who is held again has been held all the time.
            self.held.range_mut(before..).for_each(|held| held.since = since);
        }
        self.ledger.note_change();
    }

    /// A successor has to know soon what has just happened.
    pub(crate) fn hasten_mark(&mut self) {
        if let Some(fence) = &mut self.fence {
            fence.hasten();
        }
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
        self.ledger.empty(now, |_| true);
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
        self.fence.as_mut().expect("only a fence holds anybody").want(&self.resource, &ask.bill, start.since(now));
        self.held.push_back(Held { ask, since: now });
    }

    /// Sends those elsewhere whom the store has kept waiting for too long.
    pub(crate) fn release_held(&mut self, now: Time) {
        while self.held.front().is_some_and(|held| held.since + LONGEST_HOLD <= now) {
            let Held { ask, .. } = self.held.pop_front().expect("there is a first");
            self.refuse(ask.to, ask.id, Refusal::Unavailable);
        }
        self.take_back_promised(now, now - LONGEST_HOLD);
    }

    /// A level with everything promised spent, and the budgets with it.
    fn fenced_level(&self, now: Time, id: LimitId, limit: &Limit, new: &NewMark) -> LevelMark {
        let (bucket, rate) = (self.ledger.bucket(id), limit.rate());
        let budget = new.budget[id.index()];
        let unknown = [Block { from: now, until: new.until, credit: budget }];
        let taken = bucket.taken(limit, now, &unknown, new.until);
        let outstanding = |from: Time| {
            let unknown = if from < new.until { budget } else { Credit::ZERO };
            rate.micros_up(bucket.outstanding_after(from) + unknown)
        };
        LevelMark {
            limit: limit.name().clone(),
            micros: rate.micros(self.ledger.level(id, now) - budget),
            learned: self.ledger.book(id).learned_mark(now),
            withheld: match taken {
                Some(_) => Vec::new(),
                None => withheld(bucket, now, (new.until, bucket.last_promise().unwrap_or(now)), outstanding),
            },
            taken,
        }
    }

    fn grantable_at_once(&self, now: Time) -> AtOnce {
        let held = self.bills_of(self.held.iter());
        AtOnce {
            wanted: self.limits().map(|(id, limit)| held.of(id) + self.startable(now, id, limit)).collect(),
            levels: self.limits().map(|(id, _)| self.near_level(now, id)).collect(),
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

/// What a successor withholds, step by step: the first ends at `near`, the others are equal until `last`, and each step that was
/// inherited ends where it did. `outstanding` says how much from the beginning of each step on.
pub(crate) fn withheld(
    bucket: &Bucket,
    now: Time,
    (near, last): (Time, Time),
    outstanding: impl Fn(Time) -> u64,
) -> Vec<WithheldMark> {
    let inherited = bucket.withheld().steps().map(|(until, _)| until).filter(|until| *until > now);
    let ends: BTreeSet<Time> = steps(now, near, last.max(near)).into_iter().chain(inherited).collect();
    let from = std::iter::once(now).chain(ends.iter().copied());
    let step =
        |(from, until): (Time, &Time)| WithheldMark { nanos: until.since(now).nanos(), micros: outstanding(from) };
    merged(from.zip(&ends).map(step).collect())
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

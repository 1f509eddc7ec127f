//! Buckets by key.
//!
//! A key has a bucket while its state differs from that of an unused key. Each event sweeps two
//! buckets, so that forgetting costs little. Sets order buckets by what happens next: a promise
//! starts, a freeze ends, a far debt is paid. Checkpoints list debts beyond [`NEAR`].

mod lessons;

use super::key_bucket::KeyBucket;
use super::key_pages::{KeyPageId, KeyPages, initial_absent};
use crate::collections::{Index, Slab, Slot};
use crate::limits::{Bucket, Freeze, NEAR};
use rampmeter_policy::arithmetic::Credit;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::{KeyCharge, KeyName, Limit, Resource, Succession};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Buckets that each event examines, to forget those that are full.
const SWEPT_BY_EVENT: usize = 2;
/// Buckets that are examined before a new key is refused.
const SWEPT_FOR_ROOM: usize = 64;
/// The most freezes that an operator's thaw ends, which takes some milliseconds.
const MAX_THAWED: usize = 4_000;
/// Buckets that are searched for the lowest level, which takes less than a millisecond.
const MAX_SHOWN: usize = 4_000;

/// The buckets of keys: each is made by its first charge, and forgotten once it is full.
///
/// Invariants: `index` finds every bucket, and `counts` counts them. `due` has each bucket with
/// promises or expiring reports once, `frozen` each frozen bucket, `far` each with a far debt. A
/// bucket of a limit whose keys are listed is in `in_use`, or its `page` records it as it is. Only
/// [`change_at`](Keys::change_at) and changes of all buckets alter these sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    limits: Arc<[Limit]>,
    buckets: Slab<KeyBucket>,
    /// By key: buckets of different limits share a key.
    index: Index,
    counts: Vec<usize>,
    /// The bucket that a key gets with its first charge, by limit.
    absent: Vec<Bucket>,
    due: BTreeSet<(Time, Slot)>,
    /// When far debts are paid: those of limits whose keys checkpoints do not list, and the others.
    far: [BTreeSet<(Time, Slot)>; 2],
    frozen: BTreeSet<(Time, Slot)>,
    /// Buckets of limits whose keys checkpoints list, unless a page records them as they are.
    in_use: BTreeSet<Slot>,
    pub(crate) pages: KeyPages,
    /// Awaited buckets that have changed since their key queues were last examined.
    pub(crate) changed: BTreeSet<Slot>,
    /// Keys that learn from responses, and when their lessons were last reviewed.
    adaptive: BTreeSet<Slot>,
    reviewed: Time,
    swept: usize,
    bound: usize,
}

impl Keys {
    pub(super) fn new(resource: &Resource, now: Time) -> Self {
        let limits = resource.limits();
        Keys {
            limits: resource.shared_limits(),
            counts: vec![0; limits.len()],
            absent: limits.iter().map(|limit| initial_absent(resource, limit, now)).collect(),
            bound: resource.spec().bounds.max_keys,
            ..Keys::default()
        }
    }

    pub(crate) fn set_absent(&mut self, limit: LimitId, bucket: Bucket) {
        self.absent[limit.index()] = bucket;
    }

    /// Returns until when unused keys of `limit` may be empty; `None` if they are full.
    pub(crate) fn empty_at(&self, now: Time, limit: LimitId) -> Option<Time> {
        let (bucket, limit) = (self.absent(limit, now), &self.limits[limit.index()]);
        (!bucket.is_as_new(limit, now)).then(|| bucket.empty_at(limit, now))
    }

    pub(crate) fn count(&self, limit: LimitId) -> usize {
        self.counts[limit.index()]
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&KeyBucket> {
        self.buckets.get(slot)
    }

    fn known(&self, slot: Slot) -> &KeyBucket {
        self.buckets.get(slot).expect("a slot in a set has a bucket")
    }

    pub(crate) fn find(&self, limit: LimitId, key: &str) -> Option<Slot> {
        let is_it = |slot| self.get(slot).is_some_and(|known| known.limit == limit && *known.key == *key);
        self.index.find(key, is_it)
    }

    /// Returns the bucket of this key, as it is from `now` on, and the limit that it enforces.
    pub(crate) fn bucket(&self, now: Time, limit: LimitId, key: &str) -> (Cow<'_, Bucket>, &Limit) {
        match self.find(limit, key).and_then(|slot| self.get(slot)) {
            None => (Cow::Owned(self.absent(limit, now)), &self.limits[limit.index()]),
            Some(known) => {
                let (bucket, limit) = known.in_force(&self.limits);
                (Cow::Borrowed(bucket), limit)
            }
        }
    }

    /// Changes the bucket that `charge` is for, creating it if there is none.
    pub(crate) fn update<T>(
        &mut self,
        now: Time,
        charge: &KeyCharge,
        change: impl FnOnce(&mut Bucket, &Limit) -> T,
    ) -> T {
        let slot = self.find_or_insert(now, charge);
        self.note_change(slot);
        self.change_at(now, slot, |known, written| known.update(written, change))
    }

    fn change_at<T>(&mut self, now: Time, slot: Slot, change: impl FnOnce(&mut KeyBucket, &[Limit]) -> T) -> T {
        self.unlist(slot);
        self.forget_far_debt(slot);
        let done = change(self.buckets.get_mut(slot).expect("a slot in use"), &self.limits);
        self.leave_page(slot);
        self.enlist(now, slot);
        done
    }

    fn enlist(&mut self, now: Time, slot: Slot) {
        self.list(slot);
        let known = self.buckets.get_mut(slot).expect("a slot in use");
        assert!(known.page.is_none(), "a key that has changed is on no page");
        let limit = &self.limits[known.limit.index()];
        if let Some(paid) = known.far_debt_until(&self.limits, now) {
            known.far_paid = paid;
            self.far[usize::from(limit.lists_keys())].insert((paid, slot));
        }
        if limit.lists_keys() {
            self.in_use.insert(slot);
        }
    }

    /// Enters a bucket into `due` and `frozen`.
    fn list(&mut self, slot: Slot) {
        let known = self.known(slot);
        let (due, frozen) = (known.due(), known.frozen_until());
        due.into_iter().for_each(|at| assert!(self.due.insert((at, slot)), "a bucket is due once"));
        frozen.into_iter().for_each(|until| assert!(self.frozen.insert((until, slot)), "a bucket is frozen once"));
    }

    /// Removes a bucket that is about to change from `due` and `frozen`.
    fn unlist(&mut self, slot: Slot) {
        let known = self.known(slot);
        let (due, frozen) = (known.due(), known.frozen_until());
        due.into_iter().for_each(|at| assert!(self.due.remove(&(at, slot)), "a due bucket is listed"));
        frozen.into_iter().for_each(|until| assert!(self.frozen.remove(&(until, slot)), "a frozen bucket is listed"));
    }

    fn forget_far_debt(&mut self, slot: Slot) {
        let known = self.known(slot);
        let is_listed = self.limits[known.limit.index()].lists_keys();
        self.far[usize::from(is_listed)].remove(&(known.far_paid, slot));
    }

    /// Iterates over frozen buckets and the ends of their freezes, the last first.
    pub(crate) fn frozen(&self, now: Time) -> impl Iterator<Item = (Time, &KeyBucket)> {
        let ahead = self.frozen.iter().rev().take_while(move |(until, _)| *until >= now);
        ahead.map(|(until, slot)| (*until, self.known(*slot)))
    }

    pub(super) fn thaw(&mut self, now: Time, limit: LimitId) {
        for slot in self.frozen_of(limit).take(MAX_THAWED).collect::<BTreeSet<_>>() {
            self.note_change(slot);
            self.change_at(now, slot, |known, limits| known.update(limits, |bucket, _| bucket.set_freeze(None)));
        }
    }

    pub(crate) fn freeze_known(&mut self, now: Time, limit: LimitId, until: Time) {
        for slot in self.slots() {
            if self.get(slot).is_some_and(|known| known.limit == limit && known.bucket().freeze().is_none()) {
                let freeze = |bucket: &mut Bucket, _: &Limit| bucket.add_freeze(Freeze::new(now, until, None));
                self.change_at(now, slot, |known, limits| known.update(limits, freeze));
            }
        }
    }

    pub(super) fn frozen_of(&self, limit: LimitId) -> impl Iterator<Item = Slot> {
        self.frozen.iter().map(|(_, slot)| *slot).filter(move |slot| self.known(*slot).limit == limit)
    }

    /// Notes that the key queue of a bucket, if it has one, is to be examined.
    pub(crate) fn note_change(&mut self, slot: Slot) {
        if self.get(slot).is_some_and(|known| known.is_awaited) {
            self.changed.insert(slot);
        }
    }

    /// Sets whether requests wait for a bucket, which is then kept and its changes noted.
    pub(crate) fn set_awaited(&mut self, slot: Slot, is_awaited: bool) {
        if let Some(known) = self.buckets.get_mut(slot) {
            known.is_awaited = is_awaited;
        }
    }

    /// Iterates over buckets with far debts and when these are paid, the last first: those of
    /// limits whose keys checkpoints list, or the others.
    pub(crate) fn far_debts(&self, now: Time, are_listed: bool) -> impl Iterator<Item = (Time, &KeyBucket)> {
        self.far[usize::from(are_listed)].iter().rev().filter_map(move |(paid, slot)| {
            let known = self.known(*slot);
            Some((known.far_debt_until(&self.limits, now)?.max(*paid), known))
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyBucket> {
        self.buckets.iter()
    }

    /// Counts the keys of limits whose keys checkpoints list that are on no page.
    pub(crate) fn count_in_use(&self) -> usize {
        self.in_use.len()
    }

    /// Returns the keys in use among the first `most`. Keys that are full again leave the set.
    pub(crate) fn in_use(&mut self, now: Time, most: usize) -> Vec<KeyName> {
        let mut used = Vec::new();
        for slot in self.in_use.iter().take(most).copied().collect::<Vec<_>>() {
            let known = self.known(slot);
            match known.bucket().is_as_new(&self.limits[known.limit.index()], now) {
                true => drop(self.in_use.remove(&slot)),
                false => used.push(KeyName { limit: known.limit, key: Arc::from(&*known.key) }),
            }
        }
        used
    }

    pub(crate) fn restore(&mut self, limit: LimitId, key: Arc<str>, then: Time, was: Bucket) -> Slot {
        let slot = self.find_or_insert(then, &KeyCharge { limit, key, amount: Amount::ZERO });
        self.change_at(then, slot, |known, limits| known.update(limits, |bucket, _| *bucket = was));
        slot
    }

    /// Returns the slot of the bucket that `charge` is for, creating it if there is none.
    pub(crate) fn find_or_insert(&mut self, now: Time, charge: &KeyCharge) -> Slot {
        self.find(charge.limit, &charge.key).unwrap_or_else(|| {
            let (limit, key) = (charge.limit, (*charge.key).into());
            let bucket = self.absent(limit, now);
            let slot = self.buckets.insert(KeyBucket::new(limit, key, bucket));
            self.index.insert(&*charge.key, slot);
            self.counts[limit.index()] += 1;
            slot
        })
    }

    /// Whether there is a bucket for this key, or room for one.
    pub(super) fn has_room_for(&mut self, now: Time, charge: &KeyCharge) -> bool {
        if self.buckets.len() < self.bound || self.find(charge.limit, &charge.key).is_some() {
            return true;
        }
        self.sweep(now, SWEPT_FOR_ROOM);
        self.buckets.len() < self.bound
    }

    /// Spends what was promised until `now`. Far debts that have become near leave their set.
    pub(super) fn advance(&mut self, now: Time) {
        while let Some((_, slot)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.unlist(slot);
            let known = self.buckets.get_mut(slot).expect("a due bucket is known");
            known.update(&self.limits, |bucket, limit| bucket.advance(limit, now));
            if known.is_awaited && known.bucket().freeze().is_some() {
                self.changed.insert(slot);
            }
            self.list(slot);
        }
        for far in &mut self.far {
            while far.first().is_some_and(|(paid, _)| *paid <= now + NEAR) {
                far.pop_first();
            }
        }
        assert!(self.due.len().max(self.frozen.len()) <= self.buckets.len(), "a bucket is in a set once");
        assert!(self.in_use.len() <= self.buckets.len(), "a key in use has a bucket");
    }

    /// Sweeps a few keys, and forgets those that are as new. Only events do this: whether a new key
    /// has room must not depend on how often the status is read.
    pub(crate) fn forget_unused(&mut self, now: Time) {
        if self.buckets.len() > 0 {
            self.sweep(now, SWEPT_BY_EVENT);
        }
    }

    /// Returns the lowest bucket of each limit among [`MAX_SHOWN`]; debtors are read first.
    pub(crate) fn lowest(&self, now: Time) -> Vec<Option<&KeyBucket>> {
        let mut lowest: Vec<Option<(Credit, &KeyBucket)>> = vec![None; self.limits.len()];
        let due = self.due.iter().map(|(_, slot)| *slot);
        let owing = self.far.iter().flatten().map(|(_, slot)| *slot).chain(due).map(|slot| self.known(slot));
        for known in owing.chain(self.buckets.iter()).take(MAX_SHOWN) {
            let (bucket, limit) = known.in_force(&self.limits);
            let level = bucket.level(limit, now);
            let least = &mut lowest[known.limit.index()];
            if least.is_none_or(|(least, _)| level < least) {
                *least = Some((level, known));
            }
        }
        lowest.into_iter().map(|least| least.map(|(_, known)| known)).collect()
    }

    pub(super) fn change(&mut self, now: Time, resource: &Resource, succession: &Succession) {
        let (before, after) = (Arc::clone(&self.limits), resource.limits());
        let absent = succession.before().iter().zip(after).map(|(from, to)| match from.filter(|_| to.is_keyed()) {
            Some(from) => self.absent_under(now, from, to),
            None => initial_absent(resource, to, now),
        });
        self.absent = absent.collect();
        for slot in self.slots() {
            let Some(known) = self.buckets.get_mut(slot) else { continue };
            let Some(to) = succession.of(known.limit) else {
                self.remove(slot);
                continue;
            };
            known.recast(now, &before, &after[to.index()]);
            known.limit = to;
        }
        assert_eq!(succession.before().len(), after.len(), "a succession is to the new limits");
        self.adaptive.retain(|slot| self.buckets.get(*slot).is_some_and(|known| known.adaptive().is_some()));
        self.counts = succession.before().iter().map(|before| before.map_or(0, |limit| self.count(limit))).collect();
        self.limits = resource.shared_limits();
        self.enlist_all(now);
    }

    /// Adopts limits that apply to more calls, and differ in nothing else.
    pub(super) fn widen(&mut self, resource: &Resource) {
        assert_eq!(self.limits.len(), resource.limits().len(), "wider limits are as many");
        self.limits = resource.shared_limits();
        for slot in &self.adaptive {
            let known = self.buckets.get_mut(*slot).expect("a key that adapts is known");
            let limit = &self.limits[known.limit.index()];
            known.adaptive_mut().into_iter().for_each(|adaptive| adaptive.widen(limit));
        }
    }

    fn absent_under(&self, now: Time, from: LimitId, to: &Limit) -> Bucket {
        let was = &self.limits[from.index()];
        if was.counts_longer_as(to).is_some() {
            // A key that was just forgotten may have usage that counts again in the longer window.
            let known = self.empty_at(now, from).unwrap_or(Time::ORIGIN);
            return Bucket::empty_until(to, now, known.max(now - was.spec().period));
        }
        let mut absent = self.absent(from, now).recast(now, was, to);
        absent.compact(to, now);
        absent
    }

    /// Adopts the wall time that the resource now has at the origin of time.
    pub(super) fn anchor(&mut self, now: Time, resource: &Resource) {
        let before = std::mem::replace(&mut self.limits, resource.shared_limits());
        self.buckets.iter_mut().for_each(|known| known.anchor(now, &before, resource));
        let limits = before.iter().zip(resource.limits());
        self.absent.iter_mut().zip(limits).for_each(|(absent, (before, after))| absent.anchor(now, before, after));
        self.enlist_all(now);
    }

    pub(crate) fn drain(&mut self, now: Time, is_selected: impl Fn(&Limit) -> bool) {
        let drain = |bucket: &mut Bucket, limit: &Limit| {
            if is_selected(limit) {
                bucket.drain(limit, now);
            }
        };
        self.buckets.iter_mut().for_each(|known| known.update(&self.limits, drain));
        self.absent.iter_mut().zip(&*self.limits).for_each(|(absent, limit)| drain(absent, limit));
        self.enlist_all(now);
    }

    fn enlist_all(&mut self, now: Time) {
        self.pages.clear();
        self.due.clear();
        self.frozen.clear();
        self.far = Default::default();
        self.in_use.clear();
        for slot in self.slots() {
            self.buckets.get_mut(slot).into_iter().for_each(|known| known.page = None);
            self.enlist(now, slot);
        }
        assert_eq!(self.counts.iter().sum::<usize>(), self.buckets.len(), "a bucket counts once");
    }

    fn slots(&self) -> Vec<Slot> {
        let slots = (0..).map_while(|index| self.buckets.nth_slot(index));
        slots.filter(|slot| self.get(*slot).is_some()).collect()
    }

    /// Returns the bucket that a key of `limit` gets with its first charge.
    pub(crate) fn absent(&self, limit: LimitId, now: Time) -> Bucket {
        let (absent, limit) = (&self.absent[limit.index()], &self.limits[limit.index()]);
        if absent.is_as_new(limit, now) {
            return Bucket::new(limit, now, limit.full());
        }
        let mut bucket = absent.clone();
        bucket.advance(limit, now);
        bucket
    }

    /// Takes the keys of a sparse page into use, so that checkpoints list them again.
    pub(crate) fn reuse_sparse_page(&mut self) {
        let Some((number, slots)) = self.pages.sparse() else { return };
        for slot in slots {
            if self.get(slot).is_some_and(|known| known.page == Some(number)) {
                self.leave_page(slot);
                self.in_use.insert(slot);
            }
        }
    }

    /// Notes that a page records these keys as they are, except for grants since `as_of`.
    pub(crate) fn add_page(&mut self, id: KeyPageId, as_of: Time, granted_since: Vec<Credit>, keys: Vec<Slot>) {
        let number = self.pages.add(id, as_of, granted_since, keys.clone());
        for slot in keys {
            self.in_use.remove(&slot);
            self.buckets.get_mut(slot).expect("a key of a page is known").page = Some(number);
        }
    }

    /// Removes a key from its page, whose record is outdated now.
    fn leave_page(&mut self, slot: Slot) {
        let known = self.buckets.get_mut(slot).expect("a key that leaves its page is known");
        known.page.take().into_iter().for_each(|number| self.pages.note_left(number));
    }

    fn sweep(&mut self, now: Time, count: usize) {
        for _ in 0..count {
            let slot = self.buckets.nth_slot(self.swept);
            self.swept = slot.map_or(0, |_| self.swept + 1);
            if let Some(slot) = slot.filter(|slot| self.get(*slot).is_some()) {
                self.forget_if_idle(now, slot);
            }
        }
    }

    fn forget_if_idle(&mut self, now: Time, slot: Slot) {
        self.unlist(slot);
        let known = self.buckets.get_mut(slot).expect("a bucket that is looked at is known");
        known.update(&self.limits, |bucket, limit| {
            bucket.advance(limit, now);
            bucket.compact(limit, now);
        });
        let (bucket, limit) = known.in_force(&self.limits);
        let is_adapted = *limit != self.limits[known.limit.index()];
        let stays = known.is_awaited || is_adapted || !bucket.is_as_new(limit, now);
        self.list(slot);
        if !stays {
            self.remove(slot);
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.leave_page(slot);
        self.in_use.remove(&slot);
        self.adaptive.remove(&slot);
        self.unlist(slot);
        self.forget_far_debt(slot);
        let known = self.buckets.remove(slot).expect("a bucket that is removed is known");
        assert!(self.counts[known.limit.index()] > 0, "a bucket counts for its limit");
        self.counts[known.limit.index()] -= 1;
        self.index.remove(&*known.key, slot);
    }
}

//! Buckets by key.

use super::key_pages::{KeyPages, PageNumber};
use crate::arithmetic::Credit;
use crate::collections::{Index, Slab, Slot};
use crate::ids::LimitId;
use crate::limits::Bucket;
use crate::policy::{KeyCharge, KeyName, Limit, Resource, StartPolicy, Succession};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How far behind the taking of a checkpoint starts are near: a store that is silent for a moment stops nobody.
pub(crate) const NEAR: Span = Span::from_millis(2500);
/// How many buckets are looked at with every event, to forget those that are full.
const SWEEP: usize = 2;
/// How many more are looked at before a new key is refused.
const SEARCH: usize = 64;
/// Buckets that are looked at to tell people of the lowest, which takes less than a millisecond.
const MOST_SHOWN: usize = 4_000;

/// The bucket of one key.
#[derive(Clone, Debug)]
pub(crate) struct KeyBucket {
    pub(crate) limit: LimitId,
    /// Shared with nobody, so that it needs no counts.
    pub(crate) key: Box<str>,
    pub(crate) bucket: Bucket,
    /// Whether requests wait for this very bucket.
    pub(crate) is_awaited: bool,
    /// The page that tells of it as it is.
    pub(crate) page: Option<PageNumber>,
}

impl KeyBucket {
    /// When the last promise has started, and what was promised is paid; none where nothing is owed.
    fn paid(&self, limit: &Limit, now: Time) -> Option<Time> {
        let used = self.bucket.last_promise().max(self.bucket.outlasting(limit, now));
        let owes = used.is_some() || self.bucket.level(limit, now) < Credit::ZERO;
        owes.then(|| used.unwrap_or(now).max(self.bucket.next_free(limit, now)))
    }

    /// The same where that is beyond what is near.
    fn far(&self, limit: &Limit, now: Time) -> Option<Time> {
        self.paid(limit, now).filter(|paid| *paid > now + NEAR)
    }

    /// Until when nobody starts, by the upstream's own word.
    pub(crate) fn frozen_until(&self) -> Time {
        self.bucket.freeze().map_or(Time::ORIGIN, |freeze| freeze.until())
    }
}

/// All buckets that are not as new ones would be: a bucket is made when it is first drawn on, and forgotten once it is full.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    limits: Vec<Limit>,
    buckets: Slab<KeyBucket>,
    /// By key: buckets of different limits stand beside each other.
    index: Index,
    /// By limit, how many buckets there are.
    live: Vec<usize>,
    /// By limit, a bucket like all that are not here.
    others: Vec<Bucket>,
    /// When promises of buckets start.
    due: BTreeSet<(Time, Slot)>,
    /// When what buckets owe is paid, where that was beyond what is near at their last change: those of short limits, and of long ones.
    far: [BTreeSet<(Time, Slot)>; 2],
    /// The same by bucket.
    far_until: BTreeMap<Slot, Time>,
    /// When freezes of buckets end, by what was heard of each.
    frozen: BTreeSet<(Time, Slot)>,
    /// Buckets of limits whose keys the store knows, as far as no page tells of them as they are.
    pub(crate) in_use: BTreeSet<Slot>,
    pub(crate) pages: KeyPages,
    /// Buckets with gates that have changed since they were last looked at.
    noted: BTreeSet<Slot>,
    /// Where the sweep goes on.
    swept: usize,
    bound: usize,
}

impl Keys {
    pub(crate) fn new(resource: &Resource, now: Time) -> Self {
        let limits = resource.limits();
        Keys {
            limits: limits.to_vec(),
            live: vec![0; limits.len()],
            others: limits.iter().map(|limit| unheard_of(resource, limit, now)).collect(),
            bound: resource.spec().bounds.max_keys,
            ..Keys::default()
        }
    }

    /// Every bucket of `limit` that is not here is like this one.
    pub(crate) fn begin_like(&mut self, limit: LimitId, bucket: Bucket) {
        self.others[limit.index()] = bucket;
    }

    /// Every bucket of `limit` that is not here may have been used until `empty`, seen from `now`.
    pub(crate) fn begin_empty(&mut self, limit: LimitId, now: Time, empty: Time) {
        self.begin_like(limit, Bucket::empty_until(&self.limits[limit.index()], now, empty));
    }

    /// When every bucket of `limit` that is not here was empty at the latest, unless they are full.
    pub(crate) fn empty_at(&self, now: Time, limit: LimitId) -> Option<Time> {
        let (bucket, limit) = (self.fresh(limit, now), &self.limits[limit.index()]);
        (!bucket.is_as_new(limit, now)).then(|| bucket.empty_at(limit, now))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buckets.len() == 0
    }

    /// How many buckets of `limit` are not full, as far as is known.
    pub(crate) fn live(&self, limit: LimitId) -> usize {
        self.live[limit.index()]
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&KeyBucket> {
        self.buckets.get(slot)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut KeyBucket> {
        self.buckets.get_mut(slot)
    }

    pub(crate) fn find(&self, limit: LimitId, key: &str) -> Option<Slot> {
        let is_it = |slot| self.get(slot).is_some_and(|known| known.limit == limit && *known.key == *key);
        self.index.find(key, is_it)
    }

    /// The bucket that `charge` is for, as it is from `now` on.
    pub(crate) fn bucket(&self, now: Time, charge: &KeyCharge) -> Cow<'_, Bucket> {
        self.bucket_of(now, charge.limit, &charge.key)
    }

    /// The bucket of this key, as it is from `now` on.
    pub(crate) fn bucket_of(&self, now: Time, limit: LimitId, key: &str) -> Cow<'_, Bucket> {
        let known = self.find(limit, key).and_then(|slot| self.get(slot));
        known.map_or_else(|| Cow::Owned(self.fresh(limit, now)), |known| Cow::Borrowed(&known.bucket))
    }

    /// Changes the bucket that `charge` is for; it is made where there is none.
    pub(crate) fn touch<T>(
        &mut self,
        now: Time,
        charge: &KeyCharge,
        change: impl FnOnce(&mut Bucket, &Limit) -> T,
    ) -> T {
        let slot = self.open(now, charge);
        self.note(slot);
        self.change_at(now, slot, change)
    }

    fn change_at<T>(&mut self, now: Time, slot: Slot, change: impl FnOnce(&mut Bucket, &Limit) -> T) -> T {
        let known = self.buckets.get_mut(slot).expect("a slot in use");
        let limit = &self.limits[known.limit.index()];
        if let Some(paid) = self.far_until.remove(&slot) {
            self.far[usize::from(limit.lists_keys())].remove(&(paid, slot));
        }
        let done = change(&mut known.bucket, limit);
        self.leave_page(slot);
        self.enlist(now, slot);
        done
    }

    /// Notes what a bucket is to be found by.
    fn enlist(&mut self, now: Time, slot: Slot) {
        let Some(known) = self.buckets.get(slot) else { return };
        let limit = &self.limits[known.limit.index()];
        self.due.extend(known.bucket.next_promise().map(|at| (at, slot)));
        self.frozen.extend(known.bucket.freeze().map(|freeze| (freeze.until(), slot)));
        if let Some(paid) = known.far(limit, now) {
            self.far[usize::from(limit.lists_keys())].insert((paid, slot));
            self.far_until.insert(slot, paid);
        }
        if limit.lists_keys() {
            self.in_use.insert(slot);
        }
    }

    /// Buckets that are frozen, with the ends of their freezes, the last first.
    pub(crate) fn frozen(&mut self, now: Time) -> impl Iterator<Item = (Time, &KeyBucket)> {
        while self.frozen.first().is_some_and(|(until, _)| *until < now) {
            self.frozen.pop_first();
        }
        let known = |(until, slot): &(Time, Slot)| Some((*until, self.buckets.get(*slot)?));
        self.frozen.iter().rev().filter_map(known).filter(|(until, known)| known.frozen_until() == *until)
    }

    /// Notes that the gate of a bucket, if it has one, is to be looked at.
    pub(crate) fn note(&mut self, slot: Slot) {
        if self.get(slot).is_some_and(|known| known.is_awaited) {
            self.noted.insert(slot);
        }
    }

    /// A bucket whose gate is to be looked at.
    pub(crate) fn take_noted(&mut self) -> Option<Slot> {
        self.noted.pop_first()
    }

    /// The buckets whose gates are still to be looked at.
    pub(crate) fn noted_mut(&mut self) -> &mut BTreeSet<Slot> {
        &mut self.noted
    }

    /// Keeps a bucket that requests wait for, and notes its changes; or does so no more.
    pub(crate) fn keep(&mut self, slot: Slot, is_awaited: bool) {
        if let Some(known) = self.get_mut(slot) {
            known.is_awaited = is_awaited;
        }
    }

    /// Buckets of long or of short limits whose promises are paid only beyond what is near, with the time until which their keys are to
    /// be given nothing else, the last first.
    pub(crate) fn far(&self, now: Time, long: bool) -> impl Iterator<Item = (Time, &KeyBucket)> {
        let known = self.far[usize::from(long)].iter().rev();
        known.filter_map(move |(paid, slot)| {
            let known = self.buckets.get(*slot)?;
            Some((known.far(&self.limits[known.limit.index()], now)?.max(*paid), known))
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyBucket> {
        self.buckets.iter()
    }

    /// So many keys that are in use, at `most`. Those that are full are so no more.
    pub(crate) fn used(&mut self, now: Time, most: usize) -> Vec<KeyName> {
        let mut used = Vec::new();
        for slot in self.in_use.iter().take(most).copied().collect::<Vec<_>>() {
            let known = self.buckets.get(slot).expect("a key in use is known");
            match known.bucket.is_as_new(&self.limits[known.limit.index()], now) {
                true => drop(self.in_use.remove(&slot)),
                false => used.push((known.limit, Arc::from(&*known.key))),
            }
        }
        used
    }

    /// Puts the bucket of a key where its predecessor says that it was at `then`.
    pub(crate) fn put(&mut self, limit: LimitId, key: Arc<str>, then: Time, was: Bucket) -> Slot {
        let slot = self.open(then, &KeyCharge { limit, key, amount: Amount::ZERO });
        self.change_at(then, slot, |bucket, _| *bucket = was);
        slot
    }

    /// The place of the bucket that `charge` is for; it is made where there is none.
    pub(crate) fn open(&mut self, now: Time, charge: &KeyCharge) -> Slot {
        self.find(charge.limit, &charge.key).unwrap_or_else(|| {
            let bucket = self.fresh(charge.limit, now);
            self.insert(KeyBucket {
                limit: charge.limit,
                key: (*charge.key).into(),
                bucket,
                is_awaited: false,
                page: None,
            })
        })
    }

    /// Whether there is a bucket for this key, or can be one.
    pub(crate) fn has_room_for(&mut self, now: Time, charge: &KeyCharge) -> bool {
        if self.buckets.len() < self.bound || self.find(charge.limit, &charge.key).is_some() {
            return true;
        }
        self.sweep(now, SEARCH);
        self.buckets.len() < self.bound
    }

    pub(crate) fn bound(&self) -> usize {
        self.bound
    }

    /// Spends what was promised until `now`, and forgets some of the buckets that are full.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some((at, slot)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, slot));
            if let Some(known) = self.buckets.get_mut(slot) {
                known.bucket.advance(&self.limits[known.limit.index()], now);
                self.due.extend(known.bucket.next_promise().map(|at| (at, slot)));
            }
        }
        for far in &mut self.far {
            while let Some((_, slot)) = far.first().copied().filter(|(paid, _)| *paid <= now + NEAR) {
                far.pop_first();
                self.far_until.remove(&slot);
            }
        }
        if !self.is_empty() {
            self.sweep(now, SWEEP);
        }
    }

    /// By limit, the bucket with the least level, as far as buckets are looked at: those that owe something first.
    pub(crate) fn lowest(&self, now: Time) -> Vec<Option<&KeyBucket>> {
        let mut lowest: Vec<Option<(Credit, &KeyBucket)>> = vec![None; self.limits.len()];
        let owing = self.far.iter().chain([&self.due]).flatten().filter_map(|(_, slot)| self.get(*slot));
        for known in owing.chain(self.buckets.iter()).take(MOST_SHOWN) {
            let level = known.bucket.level(&self.limits[known.limit.index()], now);
            let least = &mut lowest[known.limit.index()];
            if least.is_none_or(|(least, _)| level < least) {
                *least = Some((level, known));
            }
        }
        lowest.into_iter().map(|least| least.map(|(_, known)| known)).collect()
    }

    /// Goes on under other limits: buckets of those that are gone are forgotten.
    pub(crate) fn change(&mut self, now: Time, resource: &Resource, succession: &Succession) {
        let (before, after) = (self.limits.clone(), resource.limits());
        let others = succession.before().iter().zip(after).map(|(from, to)| match from.filter(|_| to.is_keyed()) {
            Some(from) => self.others_under(now, from, to),
            None => unheard_of(resource, to, now),
        });
        self.others = others.collect();
        for slot in self.slots() {
            let Some(known) = self.buckets.get_mut(slot) else { continue };
            let (Some(to), was) = (succession.of(known.limit), &before[known.limit.index()]) else {
                self.remove(slot);
                continue;
            };
            if *was != after[to.index()] {
                known.bucket = known.bucket.recast(now, was, &after[to.index()]);
            }
            known.limit = to;
        }
        self.live = succession.before().iter().map(|before| before.map_or(0, |limit| self.live(limit))).collect();
        self.limits = after.to_vec();
        self.enlist_all(now);
    }

    /// A bucket like all of `from` that are not here, under another limit.
    fn others_under(&self, now: Time, from: LimitId, to: &Limit) -> Bucket {
        let was = &self.limits[from.index()];
        if was.counts_longer_as(to).is_some() {
            // Nobody knows what keys have taken that were forgotten a moment ago.
            let known = self.empty_at(now, from).unwrap_or(Time::ORIGIN);
            return Bucket::empty_until(to, now, known.max(now - was.spec().period));
        }
        let mut others = self.fresh(from, now).recast(now, was, to);
        others.shed(to, now);
        others
    }

    /// The wall clock showed something else at the origin of time.
    pub(crate) fn anchor(&mut self, now: Time, unix_at_origin: u64) {
        let before = self.limits.clone();
        self.limits.iter_mut().for_each(|limit| *limit = limit.clone().at_unix(unix_at_origin));
        let after = self.limits.clone();
        self.change_all(now, |bucket, index| bucket.anchor(now, &before[index], &after[index]));
    }

    /// Takes everything that is in stock.
    pub(crate) fn empty(&mut self, now: Time, is_meant: impl Fn(&Limit) -> bool) {
        let limits = self.limits.clone();
        self.change_all(now, |bucket, index| {
            if is_meant(&limits[index]) {
                bucket.drain(&limits[index], now);
            }
        });
    }

    /// Changes every bucket, and those that are not here, by the index of its limit.
    fn change_all(&mut self, now: Time, change: impl Fn(&mut Bucket, usize)) {
        self.buckets.iter_mut().for_each(|known| change(&mut known.bucket, known.limit.index()));
        self.others.iter_mut().enumerate().for_each(|(index, bucket)| change(bucket, index));
        self.enlist_all(now);
    }

    /// Notes anew what all buckets are to be found by. No page tells of any of them as it is any more.
    fn enlist_all(&mut self, now: Time) {
        self.pages.clear();
        self.far = Default::default();
        self.far_until.clear();
        self.in_use.clear();
        for slot in self.slots() {
            self.get_mut(slot).into_iter().for_each(|known| known.page = None);
            self.enlist(now, slot);
        }
    }

    fn slots(&self) -> Vec<Slot> {
        let places = (0..).map_while(|place| self.buckets.nth_place(place));
        places.filter(|slot| self.get(*slot).is_some()).collect()
    }

    /// No request waits for any bucket any more.
    pub(crate) fn keep_none(&mut self) {
        self.buckets.iter_mut().for_each(|known| known.is_awaited = false);
        self.noted.clear();
    }

    /// A bucket that is not here.
    pub(crate) fn fresh(&self, limit: LimitId, now: Time) -> Bucket {
        let (others, limit) = (&self.others[limit.index()], &self.limits[limit.index()]);
        if others.is_as_new(limit, now) {
            return Bucket::new(limit, now, limit.full());
        }
        let mut bucket = others.clone();
        bucket.advance(limit, now);
        bucket
    }

    fn insert(&mut self, bucket: KeyBucket) -> Slot {
        self.live[bucket.limit.index()] += 1;
        let slot = self.buckets.insert(bucket);
        let known = self.buckets.get(slot).expect("it was put there");
        self.index.insert(&*known.key, slot);
        slot
    }

    fn sweep(&mut self, now: Time, count: usize) {
        for _ in 0..count {
            let slot = self.buckets.nth_place(self.swept);
            self.swept = slot.map_or(0, |_| self.swept + 1);
            if let Some(slot) = slot.filter(|slot| self.is_idle(now, *slot)) {
                self.remove(slot);
            }
        }
    }

    fn is_idle(&mut self, now: Time, slot: Slot) -> bool {
        let Some(known) = self.buckets.get_mut(slot) else { return false };
        let limit = &self.limits[known.limit.index()];
        known.bucket.advance(limit, now);
        known.bucket.shed(limit, now);
        !known.is_awaited && known.bucket.is_as_new(limit, now)
    }

    fn remove(&mut self, slot: Slot) {
        self.leave_page(slot);
        self.in_use.remove(&slot);
        if let Some(paid) = self.far_until.remove(&slot) {
            self.far.iter_mut().for_each(|far| _ = far.remove(&(paid, slot)));
        }
        if let Some(known) = self.buckets.remove(slot) {
            self.live[known.limit.index()] -= 1;
            self.index.remove(&*known.key, slot);
        }
    }
}

/// A bucket that nobody has used.
fn unheard_of(resource: &Resource, limit: &Limit, now: Time) -> Bucket {
    match resource.spec().start {
        StartPolicy::Empty => Bucket::empty_until(limit, now, now),
        StartPolicy::Full | StartPolicy::Unproven => full(limit),
    }
}

fn full(limit: &Limit) -> Bucket {
    Bucket::new(limit, Time::ORIGIN, limit.full())
}

//! Buckets by key.

use crate::bill::{KeyCharge, KeyName};
use crate::bucket::Bucket;
use crate::credit::Credit;
use crate::gate::Gate;
use crate::key_pages::{KeyPages, PageNumber};
use crate::limit::Limit;
use crate::resource::{LimitId, Resource};
use crate::rules::Succession;
use crate::slab::{Slab, Slot};
use crate::spec::Start;
use hashbrown::{DefaultHashBuilder, HashTable};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Time;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

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
    pub(crate) key: Arc<str>,
    pub(crate) bucket: Bucket,
    /// Who waits for this very bucket.
    pub(crate) gate: Option<Box<Gate>>,
    /// The page that tells of it as it is.
    pub(crate) page: Option<PageNumber>,
}

impl KeyBucket {
    fn owes(&self, limit: &Limit, now: Time) -> bool {
        self.bucket.last_promise().is_some()
            || self.bucket.level(limit, now) < Credit::ZERO
            || self.bucket.outlasting(limit, now).is_some()
    }

    /// When the last promise has started, and what was promised is paid.
    fn paid(&self, limit: &Limit, now: Time) -> Time {
        let used = self.bucket.last_promise().max(self.bucket.outlasting(limit, now));
        used.unwrap_or(now).max(self.bucket.next_free(limit, now))
    }

    /// Until when nobody starts, by the upstream's own word.
    pub(crate) fn frozen_until(&self) -> Time {
        self.bucket.freeze().map_or(Time::ORIGIN, |freeze| freeze.until())
    }
}

/// The buckets of a limit that nobody knows.
#[derive(Clone, Debug)]
enum Others {
    /// They are full.
    Full,
    /// They were empty then.
    Empty(Time),
    /// They are all like this one.
    Like(Bucket),
}

impl Others {
    /// Those of a limit of which nobody has heard.
    fn begin(resource: &Resource, now: Time) -> Self {
        if resource.spec().start == Start::Empty { Others::Empty(now) } else { Others::Full }
    }
}

/// All buckets that are not as new ones would be: a bucket is made when it is first drawn on, and forgotten once it is full.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    limits: Vec<Limit>,
    buckets: Slab<KeyBucket>,
    index: HashTable<Slot>,
    hasher: DefaultHashBuilder,
    /// By limit, how many buckets there are.
    live: Vec<usize>,
    /// By limit: the buckets that nobody knows.
    others: Vec<Others>,
    /// When promises of buckets start.
    due: BTreeSet<(Time, Slot)>,
    /// Buckets with promises, or below zero.
    owing: BTreeSet<Slot>,
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
            buckets: Slab::default(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            live: vec![0; limits.len()],
            others: vec![Others::begin(resource, now); limits.len()],
            due: BTreeSet::new(),
            owing: BTreeSet::new(),
            frozen: BTreeSet::new(),
            in_use: BTreeSet::new(),
            pages: KeyPages::default(),
            noted: BTreeSet::new(),
            swept: 0,
            bound: resource.spec().bounds.max_keys,
        }
    }

    /// Every bucket of `limit` that nobody knows was empty at `time`.
    pub(crate) fn begin_empty(&mut self, limit: LimitId, time: Time) {
        self.others[limit.index()] = Others::Empty(time);
    }

    /// Every bucket of `limit` that nobody knows was like this one at `then`.
    pub(crate) fn begin_like(&mut self, limit: LimitId, then: Time, bucket: Bucket) {
        let full = bucket.is_as_new(&self.limits[limit.index()], then);
        self.others[limit.index()] = if full { Others::Full } else { Others::Like(bucket) };
    }

    /// When every bucket of `limit` that nobody knows was empty at the latest, unless they are full.
    pub(crate) fn empty_at(&self, now: Time, limit: LimitId) -> Option<Time> {
        match &self.others[limit.index()] {
            Others::Full => None,
            Others::Empty(time) => Some(*time),
            Others::Like(bucket) => Some(bucket.empty_at(&self.limits[limit.index()], now)),
        }
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
        let is_it = |slot: &Slot| self.get(*slot).is_some_and(|known| known.limit == limit && *known.key == *key);
        self.index.find(self.hash(limit, key), is_it).copied()
    }

    /// The bucket that `charge` is for, if there is one.
    pub(crate) fn known(&self, charge: &KeyCharge) -> Option<&KeyBucket> {
        self.find(charge.limit, &charge.key).and_then(|slot| self.get(slot))
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
        let (known, limit) = (self.buckets.get_mut(slot).expect("a slot in use"), &self.limits[charge.limit.index()]);
        let done = change(&mut known.bucket, limit);
        self.due.extend(known.bucket.next_promise().map(|at| (at, slot)));
        self.frozen.extend(known.bucket.freeze().map(|freeze| (freeze.until(), slot)));
        if known.owes(limit, now) {
            self.owing.insert(slot);
        }
        if limit.lists_keys() {
            self.leave_page(slot);
            self.in_use.insert(slot);
        }
        done
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
        if self.get(slot).is_some_and(|known| known.gate.is_some()) {
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

    pub(crate) fn gate_mut(&mut self, slot: Slot) -> Option<&mut Gate> {
        self.get_mut(slot)?.gate.as_deref_mut()
    }

    /// Removes the gate of a bucket if no request has anything to do with it.
    pub(crate) fn close_deserted(&mut self, slot: Slot) {
        if let Some(known) = self.get_mut(slot) {
            known.gate.take_if(|gate| gate.is_deserted());
        }
    }

    /// Buckets that have promises or are below zero, with the time until which their keys are to be given nothing else.
    pub(crate) fn owing(&mut self, now: Time) -> impl Iterator<Item = (Time, Slot)> {
        let (buckets, limits) = (&self.buckets, &self.limits);
        let known = |slot: Slot| buckets.get(slot).map(|known| (known, &limits[known.limit.index()]));
        self.owing.retain(|slot| known(*slot).is_some_and(|(known, limit)| known.owes(limit, now)));
        self.owing.iter().filter_map(move |slot| known(*slot).map(|(known, limit)| (known.paid(limit, now), *slot)))
    }

    /// Buckets that are not full, with the level that a successor is to know at `now`: everything promised is paid, and nothing else
    /// is granted until then.
    pub(crate) fn levels(&self, now: Time) -> impl Iterator<Item = (&KeyBucket, Credit)> {
        let level = move |known: &KeyBucket| known.bucket.level_when_paid(&self.limits[known.limit.index()], now);
        self.buckets.iter().map(move |known| (known, level(known)))
    }

    /// The keys that are in use; those that are full are so no more.
    pub(crate) fn used(&mut self, now: Time) -> impl Iterator<Item = (KeyName, Slot)> {
        let (buckets, limits) = (&self.buckets, &self.limits);
        self.in_use.retain(|slot| {
            buckets.get(*slot).is_some_and(|known| !known.bucket.is_as_new(&limits[known.limit.index()], now))
        });
        let known = self.in_use.iter().filter_map(move |slot| Some((buckets.get(*slot)?, *slot)));
        known.map(|(known, slot)| ((known.limit, Arc::clone(&known.key)), slot))
    }

    /// The limits.
    pub(crate) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Puts the bucket of a key where its predecessor says that it was at `then`.
    pub(crate) fn put(&mut self, limit: LimitId, key: Arc<str>, then: Time, was: Bucket) -> Slot {
        let charge = KeyCharge { limit, key, amount: Amount::ZERO };
        self.touch(then, &charge, |bucket, _| *bucket = was);
        self.open(then, &charge)
    }

    /// The place of the bucket that `charge` is for; it is made where there is none.
    pub(crate) fn open(&mut self, now: Time, charge: &KeyCharge) -> Slot {
        self.find(charge.limit, &charge.key).unwrap_or_else(|| {
            let bucket = self.fresh(charge.limit, now);
            self.insert(KeyBucket { limit: charge.limit, key: Arc::clone(&charge.key), bucket, gate: None, page: None })
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

    /// The bound of buckets.
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
        if !self.is_empty() {
            self.sweep(now, SWEEP);
        }
    }

    /// By limit, the bucket with the least level, as far as buckets are looked at: those that owe something first.
    pub(crate) fn lowest(&self, now: Time) -> Vec<Option<&KeyBucket>> {
        let mut lowest: Vec<Option<(Credit, &KeyBucket)>> = vec![None; self.limits.len()];
        let owing = self.owing.iter().filter_map(|slot| self.get(*slot));
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
        let changed = resource.limits();
        let gone = |known: &KeyBucket| succession.of(known.limit).is_none();
        let slots = (0..).map_while(|place| self.buckets.nth_place(place));
        let forgotten: Vec<Slot> = slots.filter(|slot| self.get(*slot).is_some_and(gone)).collect();
        for slot in forgotten {
            self.remove(slot);
        }
        for known in self.buckets.iter_mut() {
            let Some(to) = succession.of(known.limit) else { continue };
            let (before, after) = (&self.limits[known.limit.index()], &changed[to.index()]);
            if before != after {
                known.bucket = known.bucket.recast(now, before, after);
            }
            known.limit = to;
        }
        let others = |(before, to): (&Option<LimitId>, &Limit)| {
            let Some(before) = before.filter(|_| to.is_keyed()) else { return Others::begin(resource, now) };
            let was = &self.limits[before.index()];
            if was.counts_longer_as(to).is_some() {
                // Nobody knows what keys have taken that were forgotten a moment ago.
                let known = self.empty_at(now, before).unwrap_or(Time::ORIGIN);
                return Others::Empty(known.max(now - was.spec().period));
            }
            match &self.others[before.index()] {
                Others::Like(bucket) => Others::Like(bucket.recast(now, was, to)),
                others if !to.has_tokens() => others.clone(),
                Others::Full | Others::Empty(_) => {
                    // What nobody knows of was as full as the smaller bucket could be.
                    let level = self.fresh(before, now).recast(now, was, to).level(to, now);
                    if level < to.full() { Others::Empty(to.empty_at(now, level)) } else { Others::Full }
                }
            }
        };
        self.others = succession.before().iter().zip(changed).map(others).collect();
        self.live = succession.before().iter().map(|before| before.map_or(0, |limit| self.live(limit))).collect();
        self.limits = changed.to_vec();
        self.leave_all_pages();
        if !succession.is_same() {
            self.find_anew();
        }
    }

    /// The wall clock showed something else at the origin of time.
    pub(crate) fn anchor(&mut self, now: Time, unix_at_origin: u64) {
        let before = self.limits.clone();
        self.limits.iter_mut().for_each(|limit| *limit = limit.clone().at_unix(unix_at_origin));
        let known = self.buckets.iter_mut().map(|known| (known.limit.index(), &mut known.bucket));
        let others = self.others.iter_mut().enumerate().filter_map(|(index, others)| match others {
            Others::Like(bucket) => Some((index, bucket)),
            Others::Full | Others::Empty(_) => None,
        });
        known.chain(others).for_each(|(index, bucket)| bucket.anchor(now, &before[index], &self.limits[index]));
        self.leave_all_pages();
    }

    /// No page tells of any bucket as it is any more.
    fn leave_all_pages(&mut self) {
        self.pages.clear();
        let limits = &self.limits;
        self.in_use.clear();
        let slots: Vec<Slot> = (0..).map_while(|place| self.buckets.nth_place(place)).collect();
        for slot in slots {
            if let Some(known) = self.buckets.get_mut(slot) {
                known.page = None;
                self.in_use.extend(limits[known.limit.index()].lists_keys().then_some(slot));
            }
        }
    }

    /// Makes the index anew, as hashes have the limit in them.
    fn find_anew(&mut self) {
        let slots = (0..).map_while(|place| self.buckets.nth_place(place)).filter(|slot| self.get(*slot).is_some());
        let mut index = HashTable::with_capacity(self.buckets.len());
        let hash_of = |slot: &Slot| self.get(*slot).map_or(0, |known| self.hash(known.limit, &known.key));
        for slot in slots {
            index.insert_unique(hash_of(&slot), slot, hash_of);
        }
        self.index = index;
    }

    /// Nobody waits for any bucket any more.
    pub(crate) fn remove_gates(&mut self) {
        self.buckets.iter_mut().for_each(|known| known.gate = None);
        self.noted.clear();
    }

    /// Takes everything that is in stock.
    pub(crate) fn empty(&mut self, now: Time, is_meant: impl Fn(&Limit) -> bool) {
        for (others, _) in self.others.iter_mut().zip(&self.limits).filter(|(_, limit)| is_meant(limit)) {
            *others = match others {
                Others::Empty(time) => Others::Empty(now.max(*time)),
                Others::Full | Others::Like(_) => Others::Empty(now),
            };
        }
        for known in self.buckets.iter_mut() {
            let limit = &self.limits[known.limit.index()];
            if is_meant(limit) {
                let stock = known.bucket.level(limit, now).max(Credit::ZERO);
                known.bucket.debit(limit, now, stock);
            }
        }
        self.leave_all_pages();
    }

    /// A bucket that nobody knows.
    pub(crate) fn fresh(&self, id: LimitId, now: Time) -> Bucket {
        let limit = &self.limits[id.index()];
        match &self.others[id.index()] {
            Others::Full => Bucket::new(limit, now, limit.full()),
            Others::Empty(time) => Bucket::empty_until(limit, now, *time),
            Others::Like(bucket) => {
                let mut bucket = bucket.clone();
                bucket.advance(limit, now);
                if bucket.is_as_new(limit, now) { Bucket::new(limit, now, limit.full()) } else { bucket }
            }
        }
    }

    fn insert(&mut self, bucket: KeyBucket) -> Slot {
        self.live[bucket.limit.index()] += 1;
        let hash = self.hash(bucket.limit, &bucket.key);
        let slot = self.buckets.insert(bucket);
        // The table is taken out for the time of its growing, which reads the keys.
        let mut index = std::mem::take(&mut self.index);
        let rehash = |slot: &Slot| self.get(*slot).map_or(0, |known| self.hash(known.limit, &known.key));
        index.insert_unique(hash, slot, rehash);
        self.index = index;
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
        known.gate.is_none() && known.bucket.is_as_new(limit, now)
    }

    fn remove(&mut self, slot: Slot) {
        self.leave_page(slot);
        self.in_use.remove(&slot);
        let Some(known) = self.buckets.remove(slot) else { return };
        self.live[known.limit.index()] -= 1;
        let hash = self.hash(known.limit, &known.key);
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
    }

    fn hash(&self, limit: LimitId, key: &str) -> u64 {
        self.hasher.hash_one((limit, key))
    }
}

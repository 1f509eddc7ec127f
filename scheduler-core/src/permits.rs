//! The permits that are remembered, by id.

use crate::bill::Bill;
use crate::line::Waiting;
use crate::resource::{ClassId, LimitId};
use crate::slab::Slab;
use crate::timeline::Key;
use hashbrown::{DefaultHashBuilder, HashTable};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// How long an id is known after its start: long enough for calls that take minutes to settle.
pub(crate) const RETENTION: Span = Span::from_secs(300);
/// How long it is known at least, when the bound of remembered permits presses.
pub(crate) const MIN_RETENTION: Span = Span::from_secs(60);

/// A request that was granted or waits.
#[derive(Clone, Debug)]
pub(crate) struct Permit<R> {
    pub(crate) id: PermitId,
    pub(crate) bill: Bill,
    pub(crate) state: State<R>,
}

#[derive(Clone, Debug)]
pub(crate) enum State<R> {
    /// In line, charged nothing.
    Waiting(Box<Waiting<R>>),
    /// Committed to a start, and charged.
    Granted(Granted),
    /// Given back, or cancelled while it waited. Remembered so that a late duplicate of its
    /// request is not charged for nobody.
    Returned,
}

/// A committed start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) key: Key,
    pub(crate) limited_by: Option<LimitId>,
    pub(crate) class: ClassId,
    pub(crate) settled: bool,
}

/// Permits by id, and by the second in which they started: they are forgotten by the second.
///
/// Spread over shards, so that no request waits while a table of millions grows.
#[derive(Debug)]
pub(crate) struct Permits<R> {
    shards: Vec<Shard<R>>,
    hasher: DefaultHashBuilder,
    by_start: BTreeMap<u64, Vec<Slot>>,
    count: usize,
    bound: usize,
}

/// Sixty-four: growing one of them takes a millisecond where growing all would take a tenth of a second.
const SHARD_BITS: u32 = 6;

impl<R> Permits<R> {
    pub(crate) fn new(bound: usize) -> Self {
        Permits {
            shards: (0..1_usize << SHARD_BITS).map(|_| Shard::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            by_start: BTreeMap::new(),
            count: 0,
            bound,
        }
    }

    pub(crate) fn find(&self, id: &PermitId) -> Option<Slot> {
        let hash = self.hasher.hash_one(id);
        let index = self.shards[shard_of(hash)].find(hash, id)?;
        Some(Slot::new(shard_of(hash), index))
    }

    pub(crate) fn get(&self, slot: Slot) -> &Permit<R> {
        self.shards[slot.shard()].permits.get(slot.index()).expect("a slot in use")
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Permit<R> {
        self.shards[slot.shard()].permits.get_mut(slot.index()).expect("a slot in use")
    }

    /// Remembers a permit whose id is new. It stays until [`Permits::remove`], or until
    /// [`Permits::started`] has named its start and that is long ago.
    pub(crate) fn insert(&mut self, permit: Permit<R>) -> Slot {
        let hash = self.hasher.hash_one(&permit.id);
        self.count += 1;
        Slot::new(shard_of(hash), self.shards[shard_of(hash)].insert(hash, permit))
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Permit<R> {
        let hash = self.hasher.hash_one(&self.get(slot).id);
        self.count -= 1;
        self.shards[slot.shard()].remove(hash, slot.index())
    }

    /// Starts the clock of retention for a permit.
    pub(crate) fn started(&mut self, slot: Slot, at: Time) {
        self.by_start.entry(second_after(at)).or_default().push(slot);
    }

    /// Whether there is room for one more at `now`; makes room where that forgets nobody too early.
    pub(crate) fn has_room(&mut self, now: Time) -> bool {
        if self.count >= self.bound {
            self.forget(now, MIN_RETENTION);
        }
        self.count < self.bound
    }

    /// Forgets permits that started before `now` less the retention.
    pub(crate) fn expire(&mut self, now: Time) {
        self.forget(now, RETENTION);
    }

    /// When [`Permits::expire`] will have something to do.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        let (second, _) = self.by_start.first_key_value()?;
        Some(end_of(*second) + RETENTION)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Permit<R>> {
        self.shards.iter().flat_map(|shard| shard.permits.iter())
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn forget(&mut self, now: Time, retention: Span) {
        while let Some(entry) = self.by_start.first_entry() {
            if end_of(*entry.key()) + retention > now {
                return;
            }
            for slot in entry.remove() {
                self.remove(slot);
            }
        }
    }
}

/// Where a permit is kept: its place within a shard, and the shard in the lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(u32);

impl Slot {
    fn new(shard: usize, index: u32) -> Self {
        Slot(index << SHARD_BITS | shard as u32)
    }

    fn shard(self) -> usize {
        (self.0 & ((1 << SHARD_BITS) - 1)) as usize
    }

    fn index(self) -> usize {
        (self.0 >> SHARD_BITS) as usize
    }
}

/// The permits whose ids have hashes alike.
#[derive(Debug)]
struct Shard<R> {
    permits: Slab<Permit<R>>,
    /// Parts of hashes beside the places, so that growing reads nothing else.
    by_id: HashTable<(u32, u32)>,
}

impl<R> Default for Shard<R> {
    fn default() -> Self {
        Shard { permits: Slab::default(), by_id: HashTable::new() }
    }
}

impl<R> Shard<R> {
    fn find(&self, hash: u64, id: &PermitId) -> Option<u32> {
        let part = part_of(hash);
        let is_it = |(known, index): &(u32, u32)| *known == part && self.is_at(*index, id);
        self.by_id.find(table_hash(part), is_it).map(|(_, index)| *index)
    }

    fn is_at(&self, index: u32, id: &PermitId) -> bool {
        self.permits.get(index as usize).is_some_and(|permit| permit.id == *id)
    }

    fn insert(&mut self, hash: u64, permit: Permit<R>) -> u32 {
        let (part, index) = (part_of(hash), self.permits.insert(permit) as u32);
        self.by_id.insert_unique(table_hash(part), (part, index), |(part, _)| table_hash(*part));
        index
    }

    fn remove(&mut self, hash: u64, index: usize) -> Permit<R> {
        if let Ok(entry) = self.by_id.find_entry(table_hash(part_of(hash)), |(_, other)| *other as usize == index) {
            entry.remove();
        }
        self.permits.remove(index).expect("a slot in use")
    }
}

/// The upper half; the shard is chosen by the lower.
fn part_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Spreads a part over all the bits that a table goes by.
fn table_hash(part: u32) -> u64 {
    u64::from(part).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn shard_of(hash: u64) -> usize {
    hash as usize & ((1 << SHARD_BITS) - 1)
}

fn end_of(second: u64) -> Time {
    Time::ORIGIN + Span::from_secs(second)
}

/// The number of the first whole second at or after `at`.
fn second_after(at: Time) -> u64 {
    at.nanos().div_ceil(Span::from_secs(1).nanos())
}

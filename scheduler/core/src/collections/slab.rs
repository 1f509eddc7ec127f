//! Values in numbered slots, and a hash index of slots.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;

/// The number of a slot, from one, so that `Option<Slot>` takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(NonZeroU32);

const CHUNK: usize = 256;

/// Values that keep their slot until they are removed. Chunks grow without copying a value.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<Slot>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab::EMPTY
    }
}

impl<T> Slab<T> {
    pub(crate) const EMPTY: Slab<T> = Slab { chunks: Vec::new(), free: Vec::new(), len: 0 };

    pub(crate) fn insert(&mut self, value: T) -> Slot {
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            *self.value_mut(slot).expect("a slot once used") = Some(value);
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first chunk grows, because most slabs of promises have few.
            self.chunks.push(Vec::with_capacity(if self.chunks.is_empty() { 0 } else { CHUNK }));
        }
        let last = self.chunks.len() - 1;
        self.chunks[last].push(Some(value));
        Slot::new(last * CHUNK + self.chunks[last].len())
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        let (chunk, index) = slot.split();
        self.chunks.get(chunk)?.get(index)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.value_mut(slot)?.as_mut()
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let value = self.value_mut(slot)?.take()?;
        self.free.push(slot);
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the slot with this index from zero, used or free; `None` after the last.
    pub(crate) fn nth_slot(&self, number: usize) -> Option<Slot> {
        (number < self.len + self.free.len()).then(|| Slot::new(number + 1))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten().flatten()
    }

    fn value_mut(&mut self, slot: Slot) -> Option<&mut Option<T>> {
        let (chunk, index) = slot.split();
        self.chunks.get_mut(chunk)?.get_mut(index)
    }
}

impl Slot {
    fn new(number: usize) -> Self {
        let number = u32::try_from(number).ok().and_then(NonZeroU32::new);
        Slot(number.expect("bounds keep far fewer than 2^32 slots in use"))
    }

    fn split(self) -> (usize, usize) {
        let index = self.0.get() as usize - 1;
        (index / CHUNK, index % CHUNK)
    }
}

/// Growing one of 64 shards takes a millisecond; a whole index would take a tenth of a second.
const SHARD_BITS: u32 = 6;

/// Finds slots by the hash of an id. Half of each hash is stored beside its slot, so that the index
/// grows without reading values.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    shards: Vec<HashTable<(u32, Slot)>>,
    hasher: DefaultHashBuilder,
}

impl Default for Index {
    fn default() -> Self {
        Index { shards: vec![HashTable::new(); 1 << SHARD_BITS], hasher: DefaultHashBuilder::default() }
    }
}

impl Index {
    /// Returns the slot of `id`. `is_it` tells whether the value in a slot has this id.
    pub(crate) fn find(&self, id: &(impl Hash + ?Sized), is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        let (shard, part) = self.shard_and_part(id);
        let found = self.shards[shard].find(spread(part), |(other, slot)| *other == part && is_it(*slot))?;
        Some(found.1)
    }

    /// Adds a slot that is not in the index.
    pub(crate) fn insert(&mut self, id: &(impl Hash + ?Sized), slot: Slot) {
        let (shard, part) = self.shard_and_part(id);
        self.shards[shard].insert_unique(spread(part), (part, slot), |(part, _)| spread(*part));
    }

    pub(crate) fn remove(&mut self, id: &(impl Hash + ?Sized), slot: Slot) {
        let (shard, part) = self.shard_and_part(id);
        let entry = self.shards[shard].find_entry(spread(part), |(_, other)| *other == slot);
        entry.expect("a slot that is removed is in the index").remove();
    }

    /// The lower bits of the hash choose the shard; the upper half is the part that is kept.
    fn shard_and_part(&self, id: &(impl Hash + ?Sized)) -> (usize, u32) {
        let hash = self.hasher.hash_one(id);
        (hash as usize & ((1 << SHARD_BITS) - 1), (hash >> 32) as u32)
    }
}

/// Spreads a part over all bits that a table uses (Fibonacci hashing; Knuth, volume 3).
fn spread(part: u32) -> u64 {
    u64::from(part).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

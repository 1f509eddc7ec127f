//! A hash index of slots.

use super::slab::Slot;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};

/// Growing one of 64 shards takes a millisecond; growing a whole index would take a tenth of a
/// second.
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
    /// The slot of `id`. `is_it` tells whether the value in a slot has this id.
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

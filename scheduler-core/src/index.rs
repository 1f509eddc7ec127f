//! Finding slots by id or key.

use crate::slab::Slot;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};

/// Sixty-four: growing one of them takes a millisecond where growing all would take a tenth of a
/// second, for which everybody would wait.
const SHARD_BITS: u32 = 6;

/// A hash table of slots, in shards. It keeps a part of each hash beside the slot, so that growing
/// reads nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    shards: Vec<HashTable<Entry>>,
    hasher: DefaultHashBuilder,
}

/// Where an id belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    shard: usize,
    part: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    part: u32,
    slot: Slot,
}

impl Default for Index {
    fn default() -> Self {
        let shards = (0..1_usize << SHARD_BITS).map(|_| HashTable::new()).collect();
        Index { shards, hasher: DefaultHashBuilder::default() }
    }
}

impl Index {
    /// The slot of `id`, as `is_it` confirms.
    pub(crate) fn find(&self, id: &(impl Hash + ?Sized), is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        let Mark { shard, part } = self.mark(id);
        let found = self.shards[shard].find(spread(part), |entry| entry.part == part && is_it(entry.slot))?;
        Some(found.slot)
    }

    /// Adds the slot of an id. Of several with the same id, `is_it` tells them apart.
    pub(crate) fn insert(&mut self, Mark { shard, part }: Mark, slot: Slot) {
        self.shards[shard].insert_unique(spread(part), Entry { part, slot }, |entry| spread(entry.part));
    }

    pub(crate) fn remove(&mut self, id: &(impl Hash + ?Sized), slot: Slot) {
        let Mark { shard, part } = self.mark(id);
        if let Ok(entry) = self.shards[shard].find_entry(spread(part), |entry| entry.slot == slot) {
            entry.remove();
        }
    }

    /// The shard goes by the lower bits of the hash; the upper half is the part that is kept.
    pub(crate) fn mark(&self, id: &(impl Hash + ?Sized)) -> Mark {
        let hash = self.hasher.hash_one(id);
        Mark { shard: hash as usize & ((1 << SHARD_BITS) - 1), part: (hash >> 32) as u32 }
    }
}

/// Spreads a part over all the bits that a table goes by (Fibonacci hashing; Knuth, volume 3).
fn spread(part: u32) -> u64 {
    u64::from(part).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

//! Values in numbered slots.

use std::num::NonZeroU32;

/// The number of a slot, from one. `Option<Slot>` takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(NonZeroU32);

/// The number of values in one chunk.
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
        Slab { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> Slot {
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            *self.value_mut(slot).expect("a slot once used") = Some(value);
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
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

    /// The slot with this index, counted from zero, whether it is in use or free. None after the
    /// last.
    pub(crate) fn nth_slot(&self, number: usize) -> Option<Slot> {
        (number < self.len + self.free.len()).then(|| Slot::new(number + 1))
    }

    /// All values, in the order of their slots.
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

    /// The chunk, and the index in it.
    fn split(self) -> (usize, usize) {
        let index = self.0.get() as usize - 1;
        (index / CHUNK, index % CHUNK)
    }
}

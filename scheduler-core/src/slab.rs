//! Places for values, named by number.

/// The number of a place.
pub(crate) type Slot = u32;

/// Values in one chunk.
const CHUNK: usize = 256;

/// Values that keep their place until they are removed. It grows by chunks: what is there is
/// never copied, however many there are.
#[derive(Debug)]
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
    /// Puts a value into a free place, and returns its number.
    pub(crate) fn insert(&mut self, value: T) -> Slot {
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            *self.place_mut(slot).expect("a place once used") = Some(value);
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let last = self.chunks.len() - 1;
        self.chunks[last].push(Some(value));
        (last * CHUNK + self.chunks[last].len() - 1) as Slot
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        let (chunk, place) = split(slot);
        self.chunks.get(chunk)?.get(place)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.place_mut(slot)?.as_mut()
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let value = self.place_mut(slot)?.take()?;
        self.free.push(slot);
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All values, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().flatten()
    }

    fn place_mut(&mut self, slot: Slot) -> Option<&mut Option<T>> {
        let (chunk, place) = split(slot);
        self.chunks.get_mut(chunk)?.get_mut(place)
    }
}

fn split(slot: Slot) -> (usize, usize) {
    (slot as usize / CHUNK, slot as usize % CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_kept_and_used_again() {
        let mut slab: Slab<usize> = Slab::default();
        let places: Vec<Slot> = (0..1000).map(|value| slab.insert(value)).collect();
        assert_eq!(places, (0..1000).collect::<Vec<_>>());
        assert_eq!(slab.remove(300), Some(300));
        assert_eq!(slab.get(300), None);
        assert_eq!(slab.remove(300), None);
        assert_eq!(slab.insert(7), 300);
        assert_eq!((slab.get(300), slab.get(999), slab.get(1000)), (Some(&7), Some(&999), None));
        assert_eq!((slab.len(), slab.iter().count()), (1000, 1000));
    }
}

//! Places for values, named by number.

/// Values in one chunk.
const CHUNK: usize = 256;

/// Values that keep their place until they are removed. It grows by chunks: what is there is
/// never copied, however many there are.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts a value into a free place, and returns its number.
    pub(crate) fn insert(&mut self, value: T) -> usize {
        if let Some(place) = self.free.pop() {
            self.chunks[place as usize / CHUNK][place as usize % CHUNK] = Some(value);
            return place as usize;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let chunks_before = self.chunks.len() - 1;
        let chunk = &mut self.chunks[chunks_before];
        chunk.push(Some(value));
        chunks_before * CHUNK + chunk.len() - 1
    }

    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.chunks.get_mut(place / CHUNK)?.get_mut(place % CHUNK)?.as_mut()
    }

    pub(crate) fn remove(&mut self, place: usize) -> Option<T> {
        let value = self.chunks.get_mut(place / CHUNK)?.get_mut(place % CHUNK)?.take()?;
        self.free.push(place as u32);
        Some(value)
    }

    /// All values, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_kept_and_used_again() {
        let mut slab: Slab<usize> = Slab::default();
        let places: Vec<usize> = (0..1000).map(|value| slab.insert(value)).collect();
        assert_eq!(places, (0..1000).collect::<Vec<_>>());
        assert_eq!(slab.remove(300), Some(300));
        assert_eq!(slab.get(300), None);
        assert_eq!(slab.remove(300), None);
        assert_eq!(slab.insert(7), 300);
        assert_eq!((slab.get(300), slab.get(999), slab.get(1000)), (Some(&7), Some(&999), None));
        assert_eq!(slab.iter().count(), 1000);
    }
}

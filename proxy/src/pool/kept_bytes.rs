//! The bytes of a body, kept to be sent again.

use bytes::{Bytes, BytesMut};

/// The sizes of the first and of the largest block.
const BLOCK: (usize, usize) = (1 << 10, 64 << 10);

/// Bytes in few blocks: kept as they arrive, small pieces would take 100 bytes more each, and hold their read buffers.
#[derive(Debug, Default)]
pub(super) struct KeptBytes {
    full: Vec<Bytes>,
    last: BytesMut,
    len: usize,
}

impl KeptBytes {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns how much additional memory the next piece of `length` bytes takes.
    pub(super) fn growth(&self, length: usize) -> usize {
        if length <= self.spare() { 0 } else { (length - self.spare()).max(self.len.clamp(BLOCK.0, BLOCK.1)) }
    }

    /// Copies `piece` behind all others.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let growth = self.growth(piece.len());
        let (fitting, rest) = piece.split_at(piece.len().min(self.spare()));
        self.last.extend_from_slice(fitting);
        if !rest.is_empty() {
            let full = std::mem::replace(&mut self.last, BytesMut::with_capacity(growth));
            self.full.extend((!full.is_empty()).then(|| full.freeze()));
            self.last.extend_from_slice(rest);
        }
        self.len += piece.len();
    }

    /// Returns the bytes of one block from `start` on; nothing at the end.
    pub(super) fn from(&mut self, start: usize) -> Option<Bytes> {
        if start >= self.len {
            return None;
        }
        // Cut a block off for a sending that reads it, not for each piece of one that caught up.
        if start >= self.len - self.last.len() {
            self.full.push(self.last.split().freeze());
        }
        let mut before = 0;
        self.full.iter().find_map(|block| {
            let within = start - before;
            before += block.len();
            (start < before).then(|| block.slice(within..))
        })
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let blocks = self.full.iter().map(|block| &**block).chain([&*self.last]);
        blocks.collect::<Vec<_>>().concat()
    }

    fn spare(&self) -> usize {
        self.last.capacity() - self.last.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_came_and_take_little_more_than_themselves() {
        for (count, size) in [(0, 1), (1, 1), (3000, 1), (1_000_000, 1), (7, 100_000), (3, 1 << 20), (900, 1500)] {
            let (mut kept, mut sent, mut taken) = (KeptBytes::default(), Vec::new(), 0);
            for number in 0..count {
                let piece = vec![number as u8; size];
                taken += kept.growth(size);
                kept.push(&piece);
                sent.extend(piece);
                assert_eq!(kept.from(kept.len()), None, "a sending that has caught up");
                // Another sending begins now and then.
                if number % 100_000 == 5 {
                    assert_eq!(kept.from(number * size / 2).unwrap()[0], sent[number * size / 2]);
                }
            }
            let (mut read, mut start) = (Vec::new(), 0);
            while let Some(block) = kept.from(start) {
                start += block.len();
                read.extend_from_slice(&block);
            }
            assert!(read == sent && kept.to_vec() == sent && kept.len() == sent.len(), "{count} of {size}");
            assert!(taken <= 2 * sent.len() + BLOCK.0, "{count} of {size}: {taken}");
            assert!(kept.full.len() <= 64 + sent.len() / 32_768, "{count} of {size}: {} blocks", kept.full.len());
        }
    }
}

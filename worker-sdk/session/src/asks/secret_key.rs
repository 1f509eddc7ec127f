//! The secret that a session's ids come from.

#![expect(deprecated, reason = "the only hash of the standard library that takes a key, SipHash-2-4")]

use std::hash::{Hasher, SipHasher};

/// The uses of the key: the rounds of a permutation, and a seed.
const ROUNDS: [u8; 4] = [0, 1, 3, 4];
const SEED: u8 = 2;

/// A key of 128 bits. Its hashes reveal neither the key nor each other.
#[derive(Clone)]
pub(crate) struct SecretKey(u128);

impl SecretKey {
    pub(crate) fn new(bits: u128) -> Self {
        SecretKey(bits)
    }

    /// Encrypts a block of two halves of as many bits as `mask` has: four rounds of a Feistel network
    /// with this key's hashes, a strong pseudo-random permutation (Luby and Rackoff, 1988).
    pub(crate) fn encrypt(&self, block: [u64; 2], mask: u64) -> [u64; 2] {
        ROUNDS.iter().fold(block, |[left, right], round| [right, left ^ self.hash(*round, right) & mask])
    }

    /// Decrypts what [`encrypt`](Self::encrypt) has returned.
    pub(crate) fn decrypt(&self, block: [u64; 2], mask: u64) -> [u64; 2] {
        ROUNDS.iter().rev().fold(block, |[left, right], round| [right ^ self.hash(*round, left) & mask, left])
    }

    /// A seed for what is no secret, such as jitter.
    pub(crate) fn seed(&self) -> u64 {
        self.hash(SEED, 0)
    }

    /// Returns the same bits for the same number, other ones for each use.
    fn hash(&self, purpose: u8, number: u64) -> u64 {
        let mut hasher = SipHasher::new_with_keys(self.0 as u64, (self.0 >> 64) as u64);
        hasher.write(&[purpose]);
        hasher.write(&number.to_le_bytes());
        hasher.finish()
    }
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey")
    }
}

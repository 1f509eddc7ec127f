//! The secret that a session's ids come from.

#![expect(deprecated, reason = "the only hash of the standard library that takes a key, SipHash-2-4")]

use std::hash::{Hasher, SipHasher};

/// A key of 128 bits. Its hashes reveal neither the key nor each other.
#[derive(Clone)]
pub(crate) struct SecretKey(u128);

impl SecretKey {
    pub(crate) fn new(bits: u128) -> Self {
        SecretKey(bits)
    }

    /// The same bits for the same number.
    pub(crate) fn hash(&self, number: u64) -> u128 {
        let [low, high] = [0, 1].map(|half| self.half(half, number));
        u128::from(high) << 64 | u128::from(low)
    }

    /// A seed for what is no secret, such as jitter.
    pub(crate) fn seed(&self) -> u64 {
        self.half(2, 0)
    }

    fn half(&self, half: u8, number: u64) -> u64 {
        let mut hasher = SipHasher::new_with_keys(self.0 as u64, (self.0 >> 64) as u64);
        hasher.write(&[half]);
        hasher.write(&number.to_le_bytes());
        hasher.finish()
    }
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey")
    }
}

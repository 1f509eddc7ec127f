//! Randomness of the system.

/// 128 bits that no other process can guess, for ids that are secrets. They come from a generator
/// for cryptography, which the system seeds.
#[must_use]
pub fn secret() -> u128 {
    rand::random()
}

/// A number for jitter.
#[must_use]
pub fn entropy() -> u64 {
    rand::random()
}

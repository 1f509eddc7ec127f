//! Randomness from the system.

/// Returns 128 bits that no other process can guess, for ids that are secrets, from a cryptographic
/// generator that the system seeds.
#[must_use]
pub fn secret() -> u128 {
    rand::random()
}

/// Returns a random number for jitter, which must not serve as a secret.
#[must_use]
pub fn entropy() -> u64 {
    rand::random()
}

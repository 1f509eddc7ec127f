//! Randomness from the system.

/// Returns 128 bits of a cryptographic generator that no other process can guess, for secret ids.
#[must_use]
pub fn secret() -> u128 {
    rand::random()
}

/// Returns a random number for jitter, which must not serve as a secret.
#[must_use]
pub fn entropy() -> u64 {
    rand::random()
}

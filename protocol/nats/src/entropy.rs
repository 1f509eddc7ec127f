//! Randomness of the system.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A number that no other process draws: for seeds, ids and jitter, not for secrets.
///
/// The standard library seeds its hashers with the system's randomness.
#[must_use]
pub fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}

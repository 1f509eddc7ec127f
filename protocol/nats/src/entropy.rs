//! Randomness of the system.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A number for seeds, ids and jitter that no other process draws. It is not fit for secrets.
///
/// The standard library seeds its hashers with the system's randomness.
#[must_use]
pub fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}

//! What callers choose for the case that no scheduler answers.

pub(super) mod patience;
pub(super) mod policy;
pub(super) mod safe_rate;
pub(super) mod unreachable;

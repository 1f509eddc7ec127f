//! The state of one policy, by its algorithm.

pub(super) mod flow;
pub(super) mod meter;
pub(super) mod rejection;
pub(super) mod sliding_window;
pub(super) mod token_bucket;
pub(super) mod window;

//! Standing by: watching for a vacant lead, and holding checkpoints while the store is silent.

pub(crate) mod failover;
pub(crate) mod memory;
pub(crate) mod witnesses;

//! Standing by: watching for a vacant lead, and holding checkpoints of a leader whose store is silent.

pub(crate) mod failover;
pub(crate) mod memory;
pub(crate) mod witnesses;

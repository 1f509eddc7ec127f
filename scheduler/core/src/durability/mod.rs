//! Checkpoints, which the store must hold before permits are granted, and the snapshots in them.

mod bucket_snapshots;
pub mod checkpoint;
pub mod snapshot;
mod unsettled_calls;

//! Checkpoints that the store must hold before permits are granted, and snapshots that a successor
//! restores.

mod bucket_snapshots;
pub mod checkpoint;
pub mod snapshot;

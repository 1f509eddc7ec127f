//! Checkpoints that the store must hold before permits are granted, and snapshots that a successor
//! restores.

pub mod checkpoint;
pub mod freeze_snapshots;
mod key_snapshots;
mod level_snapshots;
mod record_space;
mod restore;
pub mod snapshot;

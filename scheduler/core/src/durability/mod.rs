//! Checkpoints that the store must hold before permits are granted, and snapshots that a successor
//! restores.

pub mod checkpoint;
mod handover;
mod key_snapshots;
mod limit_snapshots;
mod record_space;
mod restore;
pub mod snapshot;

//! Numbers of checkpoints.

/// The number of a checkpoint, from 1 on; a later one is higher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckpointNumber(pub u64);

//! What a session does while it waits for a scheduler.

pub(super) mod backoff;
pub(super) mod known_epoch;
pub(super) mod known_schedulers;
pub(super) mod reachability;
pub(super) mod report;

//! What a leader has counted lately.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of the last minutes, by which `rampmeter doctor` tells present faults from former ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recent {
    /// The time that is counted: the last five to ten minutes, or since the leader began.
    pub over_ms: f64,
    /// Permits granted.
    pub granted: u64,
    /// Permits settled.
    pub settled: u64,
    /// Permits given back and waiting requests cancelled.
    pub returned: u64,
    /// Requests refused, by code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refusals: BTreeMap<String, u64>,
    /// Calls that the upstream answered with 429, by [cause](crate::status::RejectionCause).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rejections: BTreeMap<String, u64>,
    /// Checkpoints that the store has not taken in time.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub store_losses: u64,
    /// Answers to waiting requests that have reached no client.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub undelivered: u64,
    /// Messages that were lost because too many waited.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub lost_messages: u64,
    /// Messages that were dropped because they wanted answers at inboxes of no user.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub foreign_replies: u64,
    /// How far the clock of the leader's machine is ahead of that of NATS now.
    pub clock_ahead_ms: f64,
}

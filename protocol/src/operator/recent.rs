//! A leader's recent counts.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of the last minutes, in which `rampmeter doctor` looks for current faults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recent {
    /// Length of the counted period: the last five to ten minutes, or since the leader began.
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
    /// Checkpoints that the store did not accept in time.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub store_losses: u64,
    /// Answers to waiting requests that reached no client.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub undelivered: u64,
    /// Messages dropped because too many were waiting.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub lost_messages: u64,
    /// Messages dropped because their reply subjects belong to no inbox that may be answered.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub foreign_replies: u64,
    /// How far the clock of the leader's machine is ahead of the NATS server's now.
    pub clock_ahead_ms: f64,
}

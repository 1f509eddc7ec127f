//! How a resource is doing.

use crate::name::Name;
use serde::{Deserialize, Serialize};

/// The answer on `rampmeter.status.<resource>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The resource.
    pub resource: Name,
    /// Grows with every change of leader.
    pub epoch: u64,
    /// The scheduler process that owns the resource.
    pub leader: String,
    /// Its limits, as configured.
    pub limits: Vec<LimitStatus>,
    /// Its classes, the most urgent first.
    pub classes: Vec<ClassStatus>,
    /// What happened since the process began.
    pub counters: Counters,
    /// The limit that delays the next request, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Name>,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// Its name.
    pub name: Name,
    /// What it counts.
    pub unit: Name,
    /// How it counts.
    pub algorithm: String,
    /// What a full bucket of the upstream holds.
    pub capacity: f64,
    /// In which time an empty bucket fills.
    pub period_ms: f64,
    /// Stock that is held back against jitter.
    pub margin: f64,
    /// What could be spent now, negative when promises reach into the future.
    pub level: f64,
    /// When the level will be above zero again.
    pub next_free_ms: f64,
    /// Live buckets.
    pub keys: u64,
    /// How long the limit is still frozen.
    pub frozen_ms: f64,
}

/// One class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: Name,
    /// Requests that wait.
    pub queued: u64,
    /// How long the oldest of them has waited.
    pub oldest_ms: f64,
}

/// Totals since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Permits granted.
    pub granted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Permits settled.
    pub settled: u64,
    /// Calls that the upstream answered with 429.
    pub upstream_429: u64,
    /// Permits given back and waiting requests cancelled.
    pub returned: u64,
}

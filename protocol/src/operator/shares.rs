//! How classes and clients share a resource.

use serde::{Deserialize, Serialize};

/// What classes and clients were granted lately.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// The time that is counted: the last five to ten minutes, or since the leader began.
    pub over_ms: f64,
    /// All classes, the most urgent first.
    pub classes: Vec<Share>,
    /// Clients by the label that the resource shares by: those with the largest shares, and those
    /// that wait and have no share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Share>,
    /// How many more clients are known.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub more_clients: u64,
}

/// What one class or client was granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Its part of all that was granted, from 0 to 1. A permit weighs as much as the longest time
    /// that one of its limits takes to refill its cost.
    pub share: f64,
    /// Permits granted.
    pub granted: u64,
    /// How many requests wait.
    pub waiting: u64,
    /// Permits granted ahead of their turn, because the class had starved (`max_starvation`).
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub starved: u64,
    /// An upper bound of the median time from asking to the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p50_ms: Option<f64>,
    /// An upper bound of the time that 99 % of the requests waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p99_ms: Option<f64>,
}

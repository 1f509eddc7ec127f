//! The shares of classes and clients in a resource.

use serde::{Deserialize, Serialize};

/// Permits recently granted to classes and clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Length of the counted period: the last five to ten minutes, or since the leader began.
    pub over_ms: f64,
    /// All classes, the most urgent first.
    pub classes: Vec<Share>,
    /// The clients with the largest shares, and those that wait without one, by the label that the resource shares by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Share>,
    /// Number of known clients not listed.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub more_clients: u64,
}

/// The share of one class or client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The name of the class, or the client's value of the label that the resource shares by.
    pub name: String,
    /// Its fraction, 0 to 1, of all grants, weighted by the longest time in which a limit refills the permit's cost.
    pub share: f64,
    /// Permits granted.
    pub granted: u64,
    /// Number of waiting requests.
    pub waiting: u64,
    /// Permits granted out of turn because the class had starved (`max_starvation`).
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub starved: u64,
    /// Upper bound of the median time from request to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p50_ms: Option<f64>,
    /// Upper bound of the 99th percentile of that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p99_ms: Option<f64>,
}

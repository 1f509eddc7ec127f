//! When a limit ends at the present pace.

use crate::name::Name;
use serde::{Deserialize, Serialize};

/// When a limit ends if it is used as in the last weeks. Times count from the answer on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitForecast {
    /// The limit.
    pub limit: Name,
    /// The time by which the limit has ended in one of ten replays of the last weeks. Absent if
    /// that is after the reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p10_ms: Option<f64>,
    /// The same time for half of the replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// The same time for nine of ten replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_ms: Option<f64>,
    /// The share of replays in which the limit ends before its reset, from 0 to 1.
    pub share: f64,
    /// When the window ends; absent for a limit that refills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_ms: Option<f64>,
    /// The hours of history that were replayed.
    pub history_hours: u64,
}

impl LimitForecast {
    /// The same forecast for a reader this many milliseconds later.
    #[must_use]
    pub fn after(&self, ms: f64) -> Self {
        let later = |at: Option<f64>| at.map(|at| (at - ms).max(0.0));
        let (p10_ms, p50_ms, p90_ms) = (later(self.p10_ms), later(self.p50_ms), later(self.p90_ms));
        LimitForecast { p10_ms, p50_ms, p90_ms, resets_ms: later(self.resets_ms), ..self.clone() }
    }
}

//! Forecasts of when limits are used up.

use crate::name::Name;
use serde::{Deserialize, Serialize};

/// When a limit is used up if use continues as in the last weeks. Times count from the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitForecast {
    /// A limit without a key, by its name in the status.
    pub limit: Name,
    /// Time by which a tenth of the replays has used the limit up; absent if after the reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p10_ms: Option<f64>,
    /// The same for half of the replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// The same for nine tenths of the replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_ms: Option<f64>,
    /// Share of replays that use the limit up before its reset, from 0 to 1.
    pub share: f64,
    /// When the window ends; absent for a limit that refills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_ms: Option<f64>,
    /// Hours of history replayed.
    pub history_hours: u64,
}

impl LimitForecast {
    /// Returns the forecast as of `ms` milliseconds later.
    #[must_use]
    pub fn after(&self, ms: f64) -> Self {
        let later = |at: Option<f64>| at.map(|at| (at - ms).max(0.0));
        let (p10_ms, p50_ms, p90_ms) = (later(self.p10_ms), later(self.p50_ms), later(self.p90_ms));
        LimitForecast { p10_ms, p50_ms, p90_ms, resets_ms: later(self.resets_ms), ..self.clone() }
    }
}

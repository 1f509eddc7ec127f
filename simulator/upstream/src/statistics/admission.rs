//! The record of decisions.

use crate::Cost;
use std::time::Duration;

/// One decision of the upstream, for judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When the call arrived, since the start of the upstream, to the nanosecond. It never
    /// decreases along the log.
    pub at: Duration,
    /// The cost of the call, whether it was charged or not.
    pub cost: Cost,
    /// Whether it was admitted.
    pub accepted: bool,
}

//! The record of decisions.

use crate::Cost;
use std::time::Duration;

/// A decision of the upstream, for judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When the call arrived, since the start of the upstream; never decreases along the log.
    pub at: Duration,
    /// The cost of the call, charged or not.
    pub cost: Cost,
    /// Whether the call was admitted.
    pub accepted: bool,
}

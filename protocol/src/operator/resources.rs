//! The resources that a scheduler serves, with their limits and classes.

use crate::name::Name;
use serde::{Deserialize, Serialize};

/// The answer on `rampmeter.resources`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// The resources of the scheduler that answers.
    pub resources: Vec<ResourceInfo>,
}

impl Resources {
    /// Parses an answer; `None` if `payload` is not one.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }
}

/// One resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceInfo {
    /// The name in subjects such as `rampmeter.permit.<resource>`.
    pub name: Name,
    /// The limits, without those in shadow mode.
    pub limits: Vec<LimitInfo>,
    /// Its classes, the most urgent first.
    pub classes: Vec<Name>,
    /// The class of requests that state no class.
    pub default_class: Name,
}

/// One limit as configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitInfo {
    /// The name, unique in the resource.
    pub name: Name,
    /// The unit that it counts.
    pub unit: Name,
    /// The algorithm by which it counts.
    pub algorithm: String,
    /// Capacity of a full bucket.
    pub capacity: f64,
    /// Time in which an empty bucket fills.
    pub period_ms: f64,
}

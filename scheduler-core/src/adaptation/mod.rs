//! What the upstream teaches: its rate, its stock, and what calls cost.

mod adaptive_limit;
mod call_time;
pub(crate) mod cost_estimates;
pub mod learned;
pub mod observation;
mod rate_estimator;
mod slow_start;
mod stated_capacity;

pub(crate) use adaptive_limit::AdaptiveLimit;
pub(crate) use cost_estimates::CostEstimates;
pub(crate) use observation::{Observation, Reading, Scope, Verdict};
pub(crate) use stated_capacity::Stated;

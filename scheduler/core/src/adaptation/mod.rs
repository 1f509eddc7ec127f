//! Learns from the upstream: its rate, its stock, and the cost of calls.

mod adaptive_limit;
mod attribution;
mod ceiling;
mod cost_estimates;
mod observed_call;
mod rate_estimator;
mod recent_calls;
mod rejections;
mod slow_start;

pub(crate) use adaptive_limit::AdaptiveLimit;
pub(crate) use attribution::{Attribution, Limits};
pub(crate) use cost_estimates::CostEstimates;
pub(crate) use observed_call::ObservedCall;
pub(crate) use recent_calls::RecentCalls;
pub(crate) use rejections::Rejections;

//! Unwritten limits, found by what the upstream answers.
//!
//! | what is found | from |
//! |---|---|
//! | limits with capacity and period | headers that tell of buckets: `headers` |
//! | a rate | refused calls, by additive increase and multiplicative decrease: `rate_probe` |
//! | a cap on calls in flight | refused calls, and calls that take longer: `in_flight_cap` |
//!
//! Found limits are in force like written ones, and come after these.

pub mod discovered_limit;
mod headers;
mod in_flight_cap;
mod limit_search;
mod rate_probe;
mod slowdown_detector;

pub(crate) use discovered_limit::DiscoveredLimit;
pub(crate) use headers::CallResponse;
pub(crate) use limit_search::{LimitSearch, RejectionSource};

//! Fleets of workers: what they do, what it costs, and what permits it.

pub(super) mod backlog;
pub mod cost;
pub mod fleet;
pub(super) mod permit_source;
pub(super) mod plain_rule;
pub(super) mod price;
pub mod strategy;
pub(super) mod worker;

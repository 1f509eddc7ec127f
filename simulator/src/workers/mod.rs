//! Fleets of workers, the costs of their calls, and the sources of their permits.

pub(super) mod backlog;
pub mod cost;
pub mod fleet;
pub(super) mod permit_source;
pub(super) mod plain_rule;
pub(super) mod price;
pub mod strategy;
pub(super) mod worker;

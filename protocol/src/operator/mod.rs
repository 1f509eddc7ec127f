//! Operators' queries and orders, and the answers to them.

pub mod explain;
pub mod explained;
pub mod forecast;
pub mod limit_order;
pub mod purge;
pub mod reason;
pub mod recent;
pub mod resources;
pub mod shares;
pub mod status;
pub mod usage;

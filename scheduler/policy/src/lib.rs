//! The policy of a resource: its configuration, what a call costs, and what a response says about limits.
//!
//! [`spec::ResourceSpec`] is a configuration as written, [`Resource`] a valid one with exact amounts.
//! [`Resource::bill`] computes a call's charges. Nothing here has a state: levels, queues and permits are the core's.

mod accounts;
mod applies;
pub mod arithmetic;
mod bill;
mod checks;
pub mod ids;
mod limit;
pub mod observation;
mod pool;
pub mod refusal;
mod resource;
pub mod spec;
mod succession;

pub use bill::{Alternative, Bill, BucketName, CallTraits, KeyCharge, KeyName, LimitSet};
pub use limit::{Counting, Limit};
pub use resource::{Class, Resource, by_unit};
pub use succession::{Call, Succession, only_widens};

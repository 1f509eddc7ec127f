//! What is configured, what a call costs of it, and what a response of the upstream says of it.
//!
//! [`spec::ResourceSpec`] is a configuration as it is written, and [`Resource`] a valid one with
//! exact amounts. [`Resource::bill`] computes what a call takes from each limit. Nothing here has a
//! state: levels, queues and permits are the core's.

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

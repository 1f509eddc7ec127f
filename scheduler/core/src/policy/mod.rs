//! The configuration: limits, classes, and the requests that each limit is for.

pub mod applies;
pub mod bill;
mod checks;
pub mod limit;
pub mod resource;
pub mod spec;
pub mod succession;

pub(crate) use bill::{Bill, KeyCharge, KeyName, LimitSet};
pub(crate) use limit::{Counting, Limit};
pub(crate) use resource::{Class, Resource, by_unit};
pub(crate) use spec::{MAX_IDLE_PERMITS, MAX_PERIOD, MIN_RETENTION, RETENTION, StartPolicy};
pub(crate) use succession::{Call, Succession, only_widens};

//! The configuration: limits, classes, and the requests that each limit is for.

pub mod algorithm;
pub mod applies;
pub mod bill;
mod checks;
pub mod limit;
mod limit_matcher;
mod limit_set;
pub mod resource;
pub mod spec;
pub mod succession;
pub mod weight;

pub(crate) use algorithm::Counting;
pub(crate) use bill::{Bill, KeyCharge, KeyName};
pub(crate) use limit::Limit;
pub(crate) use limit_set::LimitSet;
pub(crate) use resource::{Class, Resource};
pub(crate) use spec::{MAX_IDLE_PERMITS, MAX_PERIOD, MIN_RETENTION, OnStoreLoss, RETENTION, StartPolicy};
pub(crate) use succession::{Call, Succession, only_widens};

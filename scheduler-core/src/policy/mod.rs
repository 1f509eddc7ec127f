//! What is configured: limits, classes, and which requests each limit is for.

pub mod applies;
pub mod bill;
mod checks;
pub mod limit;
mod limit_matcher;
mod limit_set;
pub mod resource;
pub mod rules;
pub mod spec;
pub mod weight;

pub(crate) use bill::{Bill, KeyCharge, KeyName};
pub(crate) use limit::{Counting, Limit};
pub(crate) use limit_set::LimitSet;
pub(crate) use resource::{Class, Resource};
pub(crate) use rules::{Call, Succession};
pub(crate) use spec::{Algorithm, Alignment, MAX_IDLE_PERMITS, MAX_PERIOD, OnStoreLoss, StartPolicy};

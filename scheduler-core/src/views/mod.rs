//! Read-only views for people: status and explanations.

mod explain;
mod listing;
mod reasons;
pub mod report;

pub(crate) use report::limits_of;

//! Read-only views for people: status and explanations.

mod explain;
pub mod report;

pub(crate) use report::limits_of;

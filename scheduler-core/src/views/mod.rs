//! What people are shown: status and explanations. A view spends the promises that are past, and
//! changes nothing else.

pub mod client_use;
mod explain;
mod listing;
mod reasons;
pub mod report;
mod shares;
mod useful_workers;

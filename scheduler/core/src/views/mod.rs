//! Status and explanations for people. A view only spends promises that are past.

mod explain;
pub mod report;

pub use crate::ledger::usage_meter::{ClientUse, OTHERS, Use};

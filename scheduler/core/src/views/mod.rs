//! Status and explanations for people. A view spends the promises that are past, and changes
//! nothing else.

mod explain;
pub mod report;

pub use crate::ledger::usage_meter::{ClientUse, OTHERS, Use};

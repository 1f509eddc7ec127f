//! Status and explanations for people. A view spends promises that are past; it changes nothing
//! else.

mod explain;
pub mod report;

pub use crate::ledger::usage_meter::{ClientUse, OTHERS, Use};

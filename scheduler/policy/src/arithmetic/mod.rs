//! Exact amounts, rates and windows of time.

mod alignment;
mod credit;

pub use alignment::{Alignment, Window, WindowAlignment};
pub use credit::{Correction, Credit, Rate, STEPS, StartCost};

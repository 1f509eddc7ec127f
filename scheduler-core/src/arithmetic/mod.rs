//! Exact amounts, rates and windows of time.

pub mod alignment;
pub mod credit;
mod window_alignment;

pub(crate) use alignment::Alignment;
pub(crate) use credit::{Credit, Rate, STEPS, StartCost};
pub(crate) use window_alignment::{Window, WindowAlignment};

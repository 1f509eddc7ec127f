//! Exact amounts, rates and windows of time.

pub mod alignment;
pub mod credit;
pub mod offset;
mod window_alignment;

pub(crate) use alignment::Alignment;
pub(crate) use credit::{Correction, Credit, Rate, STEPS, StartCost};
pub(crate) use offset::Offset;
pub(crate) use window_alignment::{Window, WindowAlignment};

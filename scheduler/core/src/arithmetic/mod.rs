//! Exact amounts, rates and windows of time.

pub(crate) mod alignment;
mod credit;
pub(crate) mod offset;

pub(crate) use alignment::{Alignment, Window, WindowAlignment};
pub(crate) use credit::{Correction, Credit, Rate, STEPS, StartCost};
pub(crate) use offset::Offset;

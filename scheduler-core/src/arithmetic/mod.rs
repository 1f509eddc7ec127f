//! Exact amounts, rates and windows of time.

pub mod credit;
mod draw;
mod window_alignment;

pub(crate) use credit::{Credit, Rate, STEPS};
pub(crate) use draw::Draw;
pub(crate) use window_alignment::WindowAlignment;

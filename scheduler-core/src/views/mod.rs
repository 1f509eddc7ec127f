//! What people are shown: status, explanations, and limits in shadow mode.

mod explain;
pub mod report;
mod shadow;

pub(crate) use shadow::Shadows;

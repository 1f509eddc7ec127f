//! Summaries of a run: figures and a picture.

pub mod picture;
pub mod report;
pub(super) mod usage;

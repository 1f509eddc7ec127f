//! What a run of a world comes to, as figures and as a picture.

pub mod picture;
pub mod report;
pub(super) mod usage;

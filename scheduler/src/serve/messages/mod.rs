//! Messages for a permit loop, and its answers.

pub mod array;
pub mod inbound;
pub mod reply;

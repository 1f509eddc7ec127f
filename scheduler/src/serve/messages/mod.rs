//! What comes in for a permit loop, and what goes out.

pub mod array;
pub mod inbound;
pub mod reply;

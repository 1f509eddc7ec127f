//! Whether a permit loop still leads: stalls, its own messages, and what workers have seen.

pub(crate) mod leadership_check;
pub mod loopback_check;
pub(crate) mod named_epoch;
pub mod stall_detector;

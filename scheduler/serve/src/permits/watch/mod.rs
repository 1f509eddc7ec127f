//! Checks whether a permit loop still leads: stalls, echoes, and the epochs that workers know.

pub(crate) mod leadership_check;
pub mod loopback_check;
pub(crate) mod named_epoch;
pub mod stall_detector;

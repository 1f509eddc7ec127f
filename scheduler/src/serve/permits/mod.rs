//! Answering requests for permits: one loop for each resource that this process leads.

pub(crate) mod handover;
pub(crate) mod intake;
pub(crate) mod leadership_state;
pub mod loopback_check;
pub mod permit_loop;
pub mod permit_thread;
pub(crate) mod purging;
pub(crate) mod response_reader;
pub(crate) mod sending;
pub mod stall_detector;
pub mod tally;
pub(crate) mod undelivered;

//! Reads messages to a permit loop, and converts them to events of the core.

pub(crate) mod intake;
pub(crate) mod limit_orders;
pub(crate) mod permit_requests;
pub(crate) mod pricing;
pub(crate) mod purges;
pub(crate) mod round_robin;
pub(crate) mod settles;
pub(crate) mod waiting_messages;

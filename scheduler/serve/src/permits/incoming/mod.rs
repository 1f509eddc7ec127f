//! Messages for a permit loop: how they come in, and which events they become.

pub(crate) mod intake;
pub(crate) mod limit_orders;
pub(crate) mod permit_requests;
pub(crate) mod pricing;
pub(crate) mod purges;
pub(crate) mod round_robin;
pub(crate) mod settles;
pub(crate) mod waiting_messages;

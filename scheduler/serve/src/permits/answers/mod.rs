//! The core of one resource, and the way out for its answers.

pub(crate) mod core_driver;
mod costed_units;
mod fitting;
pub(crate) mod key_labels;
pub mod loop_request;
pub(crate) mod outbox;
mod pauses;
pub mod tally;
pub(crate) mod traces;
pub(crate) mod undelivered;

//! A worker's connection: its driver, NATS transport and logs.

pub(super) mod driver;
pub(super) mod link;
pub(super) mod silence;
pub(super) mod stats;
pub(super) mod token_question;
pub(super) mod transport;

//! A worker's connection: its options, the task behind it, and NATS.

pub(super) mod driver;
pub(super) mod link;
pub(super) mod silence;
pub(super) mod stats;
pub(super) mod token_question;
pub(super) mod transport;

//! What schedulers and workers both need of NATS, beside the client library.

pub mod inbox;
pub mod servers;

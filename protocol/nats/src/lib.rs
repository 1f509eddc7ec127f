//! What schedulers and workers both need of NATS, besides the client library.

pub mod entropy;
pub mod inbox;
pub mod reconnect;
pub mod servers;

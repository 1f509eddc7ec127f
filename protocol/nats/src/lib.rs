//! What schedulers and workers both need of NATS, besides the client library.

pub mod credentials;
pub mod entropy;
pub mod inbox;
pub mod key_file;
pub mod reconnect;
pub mod servers;
pub mod tls;
pub mod tls_fault;

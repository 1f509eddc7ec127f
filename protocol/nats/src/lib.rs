//! Parts around NATS that schedulers and workers both need, besides the client library.

pub mod credentials;
pub mod entropy;
pub mod inbox;
pub mod key_file;
pub mod reconnect;
pub mod servers;
pub mod tls;
pub mod tls_fault;

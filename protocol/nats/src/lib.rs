//! What schedulers and workers share around the NATS client: addresses, users, TLS and inboxes.

pub mod credentials;
pub mod entropy;
pub mod inbox;
pub mod key_file;
pub mod reconnect;
pub mod servers;
pub mod tls;
pub mod tls_fault;

/// Runs the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

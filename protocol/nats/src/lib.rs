//! What schedulers and workers both need around the NATS client: addresses, users, encryption and
//! inboxes.

pub mod credentials;
pub mod entropy;
pub mod inbox;
pub mod key_file;
pub mod reconnect;
pub mod servers;
pub mod tls;
pub mod tls_fault;

/// Tests the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! What the integration tests share: real nats-servers, schedulers in this process or in one of their own, and workers
//! that speak the protocol by hand.
//!
//! Every test has a nats-server to itself: it starts in 10 ms, its store is empty, and it ends with the test. Helpers
//! panic, which fails their test, as it should.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

pub mod api;
pub mod fleet;
pub mod nats;
pub mod openmetrics;
pub mod patience;
pub mod process;
pub mod python;
pub mod repository;
pub mod scheduler;
pub mod worker;

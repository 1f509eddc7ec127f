//! Helpers of the integration tests: real nats-servers, schedulers in this process or in their own,
//! and workers that speak the protocol by hand.
//!
//! Every test has a nats-server of its own. It starts in 10 ms with an empty store, and ends with
//! the test. Helpers panic, which fails their test, as it should.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

pub mod api;
pub mod certificates;
pub mod cluster;
pub mod collector;
pub mod decoders;
pub mod dice;
pub mod drill;
pub mod figures;
pub mod fire;
pub mod fleet;
pub mod front;
pub mod gateway;
pub mod guilds;
pub mod holder;
pub mod hostile;
pub mod http_proxy;
pub mod job_run;
pub mod judge;
pub mod listening;
pub mod load;
pub mod machine;
pub mod nats;
pub mod nginx;
pub mod openmetrics;
pub mod pair;
pub mod patience;
pub mod portal;
pub mod process;
pub mod proxy;
pub mod proxy_process;
pub mod python;
pub mod raw_upstream;
pub mod relay;
pub mod repository;
pub mod rules;
pub mod scheduler;
pub mod scripted_api;
pub mod shipped;
pub mod terminal;
pub mod tracer;
pub mod witness;
pub mod worker;
pub mod wrong_clock;

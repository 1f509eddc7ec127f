//! Helpers of the integration tests: real nats-servers, schedulers in this process or in their own,
//! and workers that speak the protocol by hand.
//!
//! Every test has a nats-server of its own. It starts in 10 ms with an empty store, and ends with
//! the test. A helper that cannot do what it says panics, which fails its test, as it should. Its
//! documentation says so only where there is more to know.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]
#![allow(clippy::must_use_candidate, reason = "a test that does not use its helper's result shows that itself")]

mod drills;
mod schedulers;
mod servers;
mod upstreams;
mod workers;

pub mod decoders;
pub mod openmetrics;
pub mod patience;
pub mod prelude;
pub mod repository;
pub mod rng;
pub mod temporary;

pub use drills::{drill, figures, fire, job_run, judge, load, machine, proxy, relay};
pub use schedulers::{front, http_proxy, pair, portal, process, proxy_process, rules, scheduler, shipped, wrong_clock};
pub use servers::{certificates, cluster, collector, gateway, listening, nats, nginx, python};
pub use upstreams::{api, customer_portal, guilds, raw_upstream, vendor};
pub use workers::{fleet, holder, hostile, parties, tracer, witness, worker};

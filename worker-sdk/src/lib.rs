//! A client for workers that call a rate-limited API without receiving 429s.
//!
//! Many workers share the limits of an upstream. Before each call a worker requests a permit over
//! NATS, and a scheduler that knows the limits decides when the call may start.
//!
//! ```no_run
//! use rampmeter_worker_sdk::{Client, Cost};
//! # async fn fetch() -> Result<http::Response<Vec<u8>>, std::io::Error> { unimplemented!() }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("nats://127.0.0.1:4222").await?;
//! let hub = client.resource("sentinel-hub")?;
//! let tile = hub.run(Cost::requests(1).and("processing-units", 2.5), || fetch()).await?;
//! client.close().await; // sends what is unsettled
//! # Ok(())
//! # }
//! ```
//!
//! [`Resource::run`] gets a permit, waits, calls, settles, and starts over after a 429. With the feature
//! `reqwest` it accepts reqwest's responses: `hub.run(1, || http.get(url).send())`. Step by step:
//!
//! ```no_run
//! # use rampmeter_worker_sdk::{Error, Outcome, Resource};
//! # async fn fetch() -> u16 { 200 }
//! # async fn example(hub: Resource) -> Result<(), Error> {
//! let permit = hub.acquire(1).class("interactive").await?; // the call may start now
//! let call = permit.begin(); // from here on the permit is used
//! let status = fetch().await;
//! call.settle(Outcome::status(status)); // tells the scheduler how it went
//! # Ok(())
//! # }
//! ```
//!
//! **A dropped [`Permit`] is given back. A dropped [`Call`] is settled as used.** The step between
//! them is [`Permit::begin`], right before the call.
//!
//! A scheduler that restarts, hands over or cannot be reached causes no error. Requests keep their place, and the
//! client repeats them until any [deadline](permit::call::Acquire::deadline); an [`Unreachable`](policy::Unreachable)
//! policy changes that. Dropping a request cancels it. All decisions are made in [`rampmeter_worker_session`].
//!
//! If other code makes the calls or serves the requests, middleware requests the permits: feature `tower` for servers
//! and clients, `reqwest-middleware` for reqwest. Threads of programs without a runtime use [`blocking`].
//!
//! With the feature `otel`, each request is an OpenTelemetry span in the current context, above the scheduler's span.
//!
//! The package `rampmeter-jobs` runs delayed work when its permit is due, and
//! `rampmeter-sentinel-hub` computes the [`Cost`] of a request to Sentinel Hub from its body.

pub mod blocking;
mod builder;
pub mod client;
mod connection;
mod cost;
pub mod error;
#[cfg(any(feature = "reqwest-middleware", feature = "tower"))]
pub mod middleware;
mod permit;
pub mod policy;
mod price;
mod resource;

pub use client::Client;
pub use cost::Cost;
pub use error::Error;
pub use permit::Permit;
pub use permit::call;
pub use permit::call::Call;
pub use permit::outcome::Outcome;
pub use resource::Resource;

/// Runs the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! What a worker uses to call a rate-limited API without receiving a 429.
//!
//! Many workers share one account of an upstream. Before each call a worker asks for a permit, over
//! NATS; a scheduler that knows the account's limits says when the call may start.
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
//! [`Resource::run`] does everything: permit, wait, call, settle, and all of it again after a 429.
//! The feature `reqwest` lets it take reqwest's answers:
//! `hub.run(1, || http.get(url).send())`. The same by hand:
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
//! **A [`Permit`] that is dropped is given back. A [`Call`] that is dropped is settled as used.**
//! The step between them is [`Permit::begin`], right before the call.
//!
//! A scheduler that restarts, hands over or cannot be reached is no error. Requests keep their
//! place, and the client repeats them until their [deadline](permit::call::Acquire::deadline), if they have
//! one. An [`Unreachable`](policy::Unreachable) policy can replace this behaviour. Dropping a
//! request cancels it. All decisions of the client are in [`rampmeter_worker_session`].
//!
//! If other code makes the calls or serves the requests, middleware asks for the permits. The
//! feature `tower` has layers for servers and clients, `reqwest-middleware` a middleware for
//! reqwest.
//!
//! Threads of programs without a runtime have the same in [`blocking`].
//!
//! With the feature `otel`, each request for a permit is a span of OpenTelemetry in the current
//! context. The scheduler's own span becomes a part of it.
//!
//! The package `rampmeter-jobs` runs delayed work when its permit is due. The package
//! `rampmeter-sentinel-hub` calculates the [`Cost`] of a request to Sentinel Hub from its body.

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

/// Tests the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! What a worker uses to call a rate-limited API without ever being told 429.
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
//! # Ok(())
//! # }
//! ```
//!
//! [`Resource::run`] does everything: permit, wait, call, settle, and the same again after a 429. By
//! hand it is:
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
//! **A [`Permit`] that is dropped is given back; a [`Call`] that is dropped is settled as used.** The step
//! between them is [`Permit::begin`], right before the call.
//!
//! A scheduler that restarts, hands over or cannot be reached is no error: requests keep their place and
//! are asked again, until their [deadline](Acquire::deadline) if they have one, unless an
//! [`Unreachable`] policy says what else to do. To drop a request is to
//! cancel it. What the client decides, and nothing else, is in [`session`].
//!
//! With the feature `processing-units` a [`Cost`] is taken from the body of a request to Sentinel Hub, with
//! `evalscript` also from its evalscript: `hub.run(Cost::of_body(Api::Process, &body)?, || send(&body))`.
//!
//! Where calls are made or requests served by other code, middleware asks for the permits: with the feature `tower` layers for
//! servers and for clients, with `reqwest-middleware` a middleware of that name.
//!
//! Work that can wait, and runs when its permit is due, is the package `rampmeter-jobs`.

mod acquire;
mod builder;
mod call;
mod client;
mod cost;
mod driver;
mod error;
mod link;
mod outcome;
mod permit;
mod policies;
#[cfg(feature = "processing-units")]
mod price;
mod request_future;
#[cfg(feature = "reqwest-middleware")]
pub mod reqwest;
mod resource;
mod run;
pub mod session;
mod stats;
#[cfg(any(feature = "reqwest-middleware", feature = "tower"))]
mod terms;
#[cfg(feature = "tower")]
pub mod tower;
mod transport;
mod unsettled;

pub use acquire::Acquire;
pub use async_nats::ConnectOptions;
pub use builder::ClientBuilder;
pub use call::Call;
pub use client::Client;
pub use cost::Cost;
pub use error::{Error, ErrorKind};
pub use outcome::{Outcome, Reply};
pub use permit::Permit;
#[cfg(feature = "processing-units")]
pub use rampmeter_processing_units as processing_units;
pub use rampmeter_protocol::code::Code;
pub use rampmeter_protocol::left::Left;
pub use resource::Resource;
pub use run::RunError;
pub use session::{Patience, PatienceError, SafeRate, SafeRateError, Unreachable};
pub use stats::Stats;

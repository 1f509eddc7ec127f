//! Layers for services of [`http`] requests, on either side: feature `tower`.
//!
//! [`ServerLayer`] lets requests into a service, as many as the limits of a resource allow, and answers the others
//! itself. [`ClientLayer`] holds the calls of a client back until each may be made.
//!
//! **A cap holds over all clones of a layer, all connections and all processes**: no layer counts anything, the scheduler
//! does. One that counts for itself lets through its cap once for every connection that it is cloned for.
//!
//! Both ask for one request without labels, in the default class, unless `asking` says what a request's head tells:
//!
//! ```no_run
//! # fn example(hub: rampmeter_worker_sdk::Resource) {
//! use rampmeter_worker_sdk::middleware::tower::ServerLayer;
//!
//! let layer = ServerLayer::new(hub).asking(|acquire, head| {
//!     let client = head.headers.get("x-client").and_then(|client| client.to_str().ok());
//!     acquire.label("client", client.unwrap_or("anonymous")).label("method", head.method.as_str())
//! });
//! # drop(layer);
//! # }
//! ```

mod client;
mod policy;
mod refusal;
mod server;

pub use client::{ClientLayer, ClientService};
pub use policy::Policy;
pub use server::{ServerLayer, ServerService};

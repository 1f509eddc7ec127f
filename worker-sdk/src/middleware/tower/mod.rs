//! Layers for services of [`http`] requests on either side (feature `tower`).
//!
//! [`ServerLayer`] lets as many requests into a service as a resource's limits allow, and refuses
//! the others. [`ClientLayer`] delays a client's calls until each may be made.
//!
//! **A limit holds over all clones of a layer, all connections and all processes**, because the
//! scheduler counts. A layer with its own counter would limit each connection separately.
//!
//! Both request a permit for one request without labels, in the default class; `asking` derives more from the head:
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
//!
//! [`ServerLayer`] settles that a request was admitted and when it ended, but reports no status: a
//! 429 of the service concerns other limits, and would freeze these.

mod client;
mod policy;
mod refusal;
mod server;

pub use client::{ClientLayer, ClientService};
pub use policy::Policy;
pub use server::{ServerLayer, ServerService};

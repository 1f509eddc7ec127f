//! The state of resources in JetStream KV.
//!
//! One value per resource says who leads it and what its buckets hold; it is written by
//! compare-and-set, so that of two schedulers only one goes on. Remembered permits are written
//! beside it on a graceful stop.

mod envelope;
mod kv;
mod record;

pub use kv::{Found, Revision, Store, StoreError};
pub use record::{PermitRecord, StateRecord};

//! Who leads a resource, and what one leader leaves to the next.
//!
//! Only the compare-and-set on a resource's state record decides who leads. Everything else here
//! decides who tries, and when.

pub mod context;
pub(crate) mod failover;
pub mod last_seen;
pub(crate) mod legacy;
pub mod peer_discovery;
pub mod peers;
pub(crate) mod provider_watch;
pub mod resource_leader;
pub(crate) mod resource_state;
pub(crate) mod resource_task;
pub(crate) mod state_writer;
pub(crate) mod store_clock;

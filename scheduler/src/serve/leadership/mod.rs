//! Who leads a resource, and what one leader leaves to the next.
//!
//! Only the compare-and-set on a resource's state record decides who leads. Everything else here decides who tries, and when.

pub(crate) mod failover;
pub mod last_seen;
pub mod peer_discovery;
pub mod peers;
pub mod resource_leader;
pub(crate) mod store_clock;
pub(crate) mod takeover;

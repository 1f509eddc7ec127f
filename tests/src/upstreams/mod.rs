//! APIs that limit calls, or answer as a test writes down.

pub mod api;
pub mod customer_portal;
pub mod guilds;
pub mod raw_upstream;
pub mod vendor;

//! Permits for calls and requests that other code makes. Each middleware needs the feature of its
//! name.

mod acquire_setter;
#[cfg(feature = "reqwest-middleware")]
pub mod reqwest;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "reqwest-middleware")]
mod watched_body;

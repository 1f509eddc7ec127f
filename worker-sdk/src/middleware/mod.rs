//! Permits for calls and requests that other code makes. Each middleware needs the feature of its
//! name.

#[cfg(feature = "reqwest-middleware")]
pub mod reqwest;
mod terms;
#[cfg(feature = "tower")]
pub mod tower;

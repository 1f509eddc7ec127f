//! Middleware that gets permits for other code's calls. Each needs the feature of its name.

mod acquire_setter;
#[cfg(feature = "reqwest-middleware")]
pub mod reqwest;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "reqwest-middleware")]
mod watched_body;

//! The binary `rampmeter`: its command line, with a file or folder for each subcommand.
//!
//! The packages below do the work: `rampmeter-serve` runs the core, `rampmeter-front` serves HTTP over it, and
//! [`running`] starts and stops both. The library is for tests and benches.

pub mod cli;
pub mod commands;
pub mod running;

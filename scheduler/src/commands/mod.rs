//! What each subcommand does.

pub mod bench;
pub mod check;
pub mod demo;
pub mod explain;
pub mod nats_arg;
pub mod serve;
pub mod signal;
pub mod simulate;
pub mod status;
mod table;
pub mod upstream;

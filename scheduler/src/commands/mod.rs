//! The subcommands.

pub mod apply;
pub mod bench;
pub mod check;
mod counting;
pub mod demo;
pub mod explain;
pub mod import;
pub mod jobs;
pub mod limits;
pub mod nats_arg;
mod open_files;
pub mod pu;
pub mod purge;
mod rules_diff;
mod rules_edit;
pub mod serve;
pub mod signal;
pub mod simulate;
pub mod state;
pub mod status;
mod table;
pub mod upstream;

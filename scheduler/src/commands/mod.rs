//! The subcommands.

pub mod apply;
pub mod bench;
pub mod check;
mod counting;
pub mod demo;
mod embedded_nats;
pub mod explain;
mod human;
pub mod import;
pub mod jobs;
pub mod limit_orders;
pub mod limits;
pub mod nats_arg;
mod open_files;
pub mod output;
pub mod pu;
pub mod purge;
mod reasons;
mod rules_diff;
mod rules_edit;
pub mod serve;
pub mod signal;
pub mod simulate;
pub mod state;
pub mod status;
mod table;
pub mod upstream;

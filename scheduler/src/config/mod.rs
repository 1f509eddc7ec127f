//! The configuration file: read, checked, and turned into what the core takes.
//!
//! `table` is the file as written; [`parse`] finds what is wrong with it, and where.

mod duration;
mod fair_share;
mod load;
mod place;
mod scenario;
mod scenario_fleet;
mod table;

pub use load::{Config, Note, load, parse};
pub use place::ConfigError;
pub use scenario::{load_scenario, parse_scenario};
pub use table::{HttpTable, NatsTable};

/// The commented configuration that `rampmeter check --print-default` prints.
pub const DEFAULT: &str = include_str!("../../../deploy/rampmeter.toml");

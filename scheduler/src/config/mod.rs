//! The configuration file: read, checked, and turned into what the core takes.
//!
//! `table` is the file as written; [`parse`] finds what is wrong with it, and where.

mod algorithm;
mod applies;
mod dialect;
mod duration;
mod fair_share;
mod http;
mod http_settings;
mod load;
mod place;
mod provider;
mod range;
mod rules;
mod safety;
mod scenario;
mod scenario_fleet;
mod table;
mod value;

pub(crate) use duration::parse as parse_duration;
pub use http_settings::{CheckSettings, DEFAULT_MAX_CONNECTIONS, HttpSettings, LabelSource, OnUnavailable};
pub use load::{Config, Configured, Note, load, parse};
pub use place::ConfigError;
pub use rules::{Applied, ResourceRules, Rules, parse_rules};
pub use scenario::{load_scenario, parse_scenario};
pub use table::NatsTable;

/// The commented configuration that `rampmeter check --print-default` prints.
pub const DEFAULT: &str = include_str!("../../../deploy/rampmeter.toml");

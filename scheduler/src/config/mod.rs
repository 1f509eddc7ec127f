//! Reads and checks the configuration file, and turns it into the core's settings.
//!
//! `table` has the keys of the file, and `default_file` writes the file that users start from.
//! [`parse`] reports each fault of a file with its place.

mod algorithm;
mod applies;
mod credential;
mod default_file;
mod dialect;
pub(crate) mod duration;
mod fair_share;
mod faults;
mod http;
mod http_settings;
mod intercept;
mod keys;
mod limit_table;
mod load;
mod nats_table;
mod pricing;
mod provider;
mod proxy;
mod range;
mod rules;
mod safety;
mod scenario;
mod scenario_fleet;
mod source;
mod table;
mod telemetry;
mod tls;
mod token_file;
mod value;

pub use credential::{CredentialFrom, CredentialSettings};
pub use default_file::default_file;
pub(crate) use duration::parse as parse_duration;
pub use http_settings::{
    CheckSettings, DEFAULT_MAX_CONNECTIONS, HttpSettings, LabelSource, OnUnavailable, OriginSettings, TokenSource,
};
pub(crate) use limit_table::{limit_tables, limits_text};
pub use load::{Config, Configured, Note, load, parse};
pub use nats_table::NatsTable;
pub use pricing::Pricing;
pub use proxy::{OnNoScheduler, ProxySettings};
pub use rules::{Applied, ResourceRules, Rules, parse_rules, parse_stored_rules};
pub(crate) use rules::{limit_text, limits_in_force};
pub use scenario::{load_scenario, parse_scenario};
pub use source::ConfigError;
pub use telemetry::TelemetrySettings;
pub(crate) use token_file::MIN_TOKEN;
pub use token_file::{PageRight, TokenSettings, parse_tokens};

//! Reads and checks the configuration file, and turns it into the core's settings.
//!
//! `limits::table` has the keys of the file. `default_file` writes the file that users start from.
//! [`parse`] reports each fault of a file with its place.

mod default_file;
mod http;
mod keys;
mod limit_table;
mod limited_resource;
mod limits;
mod load;
mod nats;
mod provider;
mod proxy;
pub mod reading;
mod rules;
mod safety;
mod table;
mod telemetry;

pub use default_file::default_file;
pub use http::settings::{
    CheckSettings, DEFAULT_MAX_CONNECTIONS, HttpSettings, LabelSource, OnUnavailable, OriginSettings, TokenSource,
};
pub(crate) use http::token_file::MIN_TOKEN;
pub use http::token_file::{PageRight, TokenSettings, parse_tokens};
pub(crate) use limit_table::{limit_tables, limits_text};
pub use limited_resource::LimitedResource;
pub use limits::pricing::Pricing;
pub use load::{Config, Configured, Note, load, parse};
pub use nats::NatsTable;
pub use proxy::credential::{CredentialFrom, CredentialSettings};
pub use proxy::{OnNoScheduler, ProxySettings};
pub use reading::source::ConfigError;
pub use rules::{Applied, ResourceRules, Rules, parse_rules, parse_stored_rules};
pub(crate) use rules::{limit_text, limits_in_force};
pub use telemetry::TelemetrySettings;

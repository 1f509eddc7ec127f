//! The configuration file: read, checked, and turned into settings.
//!
//! Keys are rows of `keys!` tables, `default_file` writes a first file, and [`parse`] shows each fault with its place.

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
mod telemetry;

pub use default_file::default_file;
pub use http::settings::{
    CheckSettings, DEFAULT_MAX_CONNECTIONS, HttpSettings, LabelSource, OnUnavailable, OriginSettings, TokenSource,
};
pub use http::token_file::{MIN_TOKEN, PageRight, TokenSettings, parse_tokens};
pub use limit_table::{limit_default, limit_tables, limits_text};
pub use limited_resource::LimitedResource;
pub use limits::pricing::Pricing;
pub use load::{Config, Configured, Note, load, parse};
pub use nats::{NatsTable, nats_of};
pub use proxy::credential::{CredentialFrom, CredentialSettings, CredentialsSettings};
pub use proxy::{MONEY, OnNoScheduler, ProxySettings};
pub use reading::source::ConfigError;
pub use rules::{Applied, ResourceRules, Rules, limit_text, limits_in_force, parse_rules, parse_stored_rules};
pub use telemetry::TelemetrySettings;

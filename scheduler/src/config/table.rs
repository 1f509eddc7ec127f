//! The configuration file as a whole.

use super::http::HttpTable;
use super::limits::table::ResourceTable;
use super::nats::NatsTable;
use super::proxy::ProxyTable;
use super::telemetry::TelemetryTable;
use serde::Deserialize;
use toml::Spanned;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTable {
    pub nats: Option<NatsTable>,
    #[serde(default)]
    pub http: HttpTable,
    #[serde(default)]
    pub telemetry: TelemetryTable,
    #[serde(default)]
    pub proxy: Vec<Spanned<ProxyTable>>,
    #[serde(default)]
    pub resource: Vec<Spanned<ResourceTable>>,
}

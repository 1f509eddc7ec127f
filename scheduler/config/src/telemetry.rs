//! `[telemetry]` of the file.

use super::keys::keys;
use super::provider::{is_loopback, secret, url};
use super::reading::source::{ConfigError, Source};
use http::Uri;
use rampmeter_account::SecretSource;
use serde::Deserialize;
use toml::Spanned;

/// The default share of traces that are recorded. It shows slow calls at a negligible cost.
const DEFAULT_SAMPLE: f64 = 0.01;
const MAX_SERVICE: usize = 64;

keys! {
    /// `[telemetry]`
    ///
    /// Traces: a span for each recorded request, with its wait and its reason.
    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct TelemetryTable {
        /// The OpenTelemetry collector that gets a span for each recorded request: its address for
        /// OTLP over HTTP, without /v1/traces. Without this, nothing is recorded.
        otlp: Option<Spanned<String>> = Example(r#""http://127.0.0.1:4318""#),
        /// The share of traces begun here that is recorded, from 0 to 1. A request with a
        /// `traceparent` is recorded if its sender records it.
        sample: Option<Spanned<f64>> = Default("0.01"),
        /// What this service is called in traces (`service.name`).
        service: Option<Spanned<String>> = Default(r#""rampmeter""#),
        /// The environment variable with headers that the collector wants, such as a key. It is
        /// written like OpenTelemetry's own: "name=value,name=value", the values percent-encoded.
        headers_env: Option<Spanned<String>> = Example(r#""OTEL_EXPORTER_OTLP_HEADERS""#),
        /// The file with these headers, in place of the variable. It is read for each export.
        headers_file: Option<Spanned<String>> = Example(r#""/run/secrets/otlp-headers""#),
    }
}

/// `[telemetry]`, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetrySettings {
    /// The endpoint that receives spans.
    pub traces: Uri,
    /// The share of traces begun here that is recorded.
    pub sample: f64,
    /// The name of this service.
    pub service: String,
    /// The source of the headers that the collector wants.
    pub headers: Option<SecretSource>,
}

/// Reads `table`; `None` if it names no collector.
pub(super) fn settings(source: &Source, table: &TelemetryTable) -> Result<Option<TelemetrySettings>, ConfigError> {
    let (sample, service) = (sample(source, table.sample.as_ref())?, service(source, table.service.as_ref())?);
    let headers = secret(source, "headers", table.headers_env.as_ref(), table.headers_file.as_ref())?;
    let Some(otlp) = &table.otlp else { return Ok(None) };
    let base = url(source, otlp, true)?;
    let is_open = base.scheme_str() == Some("http") && !base.host().is_some_and(is_loopback);
    if is_open && headers.is_some() {
        return Err(source.fault(&otlp.span(), "the headers would go over the network for all to read; use https://"));
    }
    let traces = format!("{}/v1/traces", base.to_string().trim_end_matches('/'));
    let traces = traces.parse().map_err(|_| source.fault(&otlp.span(), "this is the address of a collector"))?;
    Ok(Some(TelemetrySettings { traces, sample, service, headers }))
}

fn sample(source: &Source, given: Option<&Spanned<f64>>) -> Result<f64, ConfigError> {
    match given {
        Some(part) if !(0.0..=1.0).contains(part.get_ref()) => {
            Err(source.fault(&part.span(), format!("this is a part from 0 to 1, not {}", part.get_ref())))
        }
        given => Ok(given.map_or(DEFAULT_SAMPLE, |part| *part.get_ref())),
    }
}

fn service(source: &Source, given: Option<&Spanned<String>>) -> Result<String, ConfigError> {
    match given {
        Some(name) if !(1..=MAX_SERVICE).contains(&name.get_ref().chars().count()) => {
            Err(source.fault(&name.span(), format!("the name of a service has 1 to {MAX_SERVICE} characters")))
        }
        given => Ok(given.map_or("rampmeter".to_owned(), |name| name.get_ref().clone())),
    }
}

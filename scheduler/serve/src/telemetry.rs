//! Starts the export of spans.

use anyhow::Context;
use rampmeter_config::TelemetrySettings;
use rampmeter_protocol::clock::Clock;
use rampmeter_telemetry::{Exporter, Settings, Spans, headers};
use secrecy::ExposeSecret;

/// Starts the task that exports spans to the collector. `None` if no collector is configured.
///
/// # Errors
/// If the headers can't be read, or the collector needs TLS and the system has no certificates.
pub fn start(
    settings: Option<&TelemetrySettings>,
    clock: Clock,
    instance: &str,
) -> anyhow::Result<Option<(Spans, Exporter)>> {
    let Some(TelemetrySettings { traces, sample, service, headers: place }) = settings.cloned() else {
        return Ok(None);
    };
    tracing::info!("spans go to {traces}");
    let read = move || match &place {
        Some(place) => {
            let text = place.read()?;
            headers::parse(text.expose_secret()).map_err(|error| format!("{place}: {error}"))
        }
        None => Ok(Default::default()),
    };
    let settings = Settings { traces, sample, service, instance: instance.to_owned(), headers: Box::new(read) };
    Exporter::start(settings, clock).context("`[telemetry]`").map(Some)
}

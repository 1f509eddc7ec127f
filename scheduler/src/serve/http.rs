//! Health, readiness and metrics over HTTP.

use super::health::Health;
use super::metrics;
use super::tenure::Reporter;
use anyhow::Context;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The content type of the `OpenMetrics` text that Prometheus asks for.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the pages show.
#[derive(Clone, Debug)]
pub struct Pages {
    /// Duties.
    pub health: Arc<Health>,
    /// One for each resource.
    pub reporters: Vec<Reporter>,
    /// The connection whose state counts for readiness.
    pub client: async_nats::Client,
}

/// Listens at `listen`, and serves until the process ends.
///
/// # Errors
/// If the address can't be had.
pub async fn start(listen: &str, pages: Pages) -> anyhow::Result<SocketAddr> {
    let listener =
        TcpListener::bind(listen).await.with_context(|| format!("`http.listen`: can't listen at {listen}"))?;
    let address = listener.local_addr()?;
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(pages);
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "HTTP has ended");
        }
    });
    Ok(address)
}

/// 200 while every resource is led by somebody; 503 with the reasons otherwise.
async fn ready(State(pages): State<Pages>) -> Response {
    let connected = pages.client.connection_state() == async_nats::connection::State::Connected;
    let ready = connected && pages.health.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = serde_json::json!({"ready": ready, "nats": connected, "resources": pages.health.duties()});
    (status, Json(body)).into_response()
}

async fn metrics(State(pages): State<Pages>) -> Response {
    let mut reports = Vec::new();
    for reporter in &pages.reporters {
        reports.extend(reporter.report().await);
    }
    let text = metrics::render(&reports, &pages.health);
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}

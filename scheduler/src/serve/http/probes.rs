//! Health, readiness and metrics over HTTP.

use crate::metrics_page;
use crate::serve::health::Health;
use crate::serve::leadership::peers::Peers;
use crate::serve::limits::differences::Differences;
use crate::serve::limits::rulebook::RulebookReceiver;
use crate::serve::metrics;
use crate::serve::permits::loop_handle::Reporter;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;

/// What the pages show.
#[derive(Clone, Debug)]
pub struct Probes {
    /// What this scheduler does for each resource.
    pub health: Arc<Health>,
    /// A reporter for each resource.
    pub reporters: Vec<Reporter>,
    /// The rules in force, and why later ones are not.
    pub rules: RulebookReceiver,
    /// The schedulers that count differently.
    pub differences: Arc<Differences>,
    /// All schedulers that live.
    pub peers: Arc<Peers>,
    /// The connection whose state counts for readiness.
    pub client: async_nats::Client,
}

impl Probes {
    /// The pages. They need no token.
    pub(super) fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

/// 200 while every resource has a leader; 503 with the reasons otherwise.
async fn ready(State(pages): State<Probes>) -> Response {
    let connected = pages.client.connection_state() == async_nats::connection::State::Connected;
    let ready = connected && pages.health.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = serde_json::json!({"ready": ready, "nats": connected, "resources": pages.health.duties()});
    let rules = pages.rules.borrow().clone();
    if rules.has_news() {
        body["rules"] = serde_json::json!(rules);
    }
    let differing = pages.differences.all();
    if !differing.is_empty() {
        body["differing"] = serde_json::json!(differing);
    }
    (status, Json(body)).into_response()
}

async fn metrics(State(pages): State<Probes>) -> Response {
    let mut reports = Vec::new();
    for reporter in &pages.reporters {
        reports.extend(reporter.report().await);
    }
    let text = metrics::render(&reports, &pages.health, &pages.rules.borrow(), &pages.differences);
    metrics_page::respond(&text)
}

//! Health, readiness and metrics over HTTP.

use super::access_log::AccessLog;
use super::metrics;
use crate::metrics::exposition;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use rampmeter_serve::SchedulerView;
use std::sync::Arc;

/// The pages about this scheduler. They need no token.
pub(super) fn router(view: Arc<SchedulerView>, lost_lines: fn() -> u64, access_log: AccessLog) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(move |view| metrics(view, lost_lines, access_log.clone())))
        .with_state(view)
}

/// 200 while every resource has a leader; 503 with the reasons otherwise.
async fn ready(State(view): State<Arc<SchedulerView>>) -> Response {
    let connected = view.client.connection_state() == async_nats::connection::State::Connected;
    let ready = connected && view.health.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = serde_json::json!({"ready": ready, "nats": connected, "resources": view.health.duties()});
    let rules = view.rules.borrow().clone();
    if rules.has_news() {
        body["rules"] = serde_json::json!(rules);
    }
    let differing = view.differences.all();
    if !differing.is_empty() {
        body["differing"] = serde_json::json!(differing);
    }
    (status, Json(body)).into_response()
}

async fn metrics(State(view): State<Arc<SchedulerView>>, lost_lines: fn() -> u64, access_log: AccessLog) -> Response {
    let mut reports = Vec::new();
    for reporter in &view.reporters {
        reports.extend(reporter.report().await);
    }
    let text = metrics::render(
        &reports,
        &view.health,
        &view.rules.borrow(),
        &view.differences,
        lost_lines(),
        access_log.counts(),
    );
    exposition::respond(&text)
}

//! Health, readiness and metrics over HTTP.

use super::access_log::AccessLog;
use super::metrics;
use crate::metrics::exposition;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use rampmeter_protocol::name::Name;
use rampmeter_serve::SchedulerView;
use rampmeter_serve::context::ProcessContext;
use rampmeter_serve::health::ServingState;
use std::sync::Arc;

/// Returns the routes about this scheduler, which need no token.
pub(super) fn router(view: Arc<SchedulerView>, lost_lines: fn() -> u64, access_log: AccessLog) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(move |view| metrics(view, lost_lines, access_log.clone())))
        .with_state(view)
}

/// Responds 200 while every resource has a leader, else 503 with the reasons.
async fn ready(State(view): State<Arc<SchedulerView>>) -> Response {
    let connected = view.context.client.connection_state() == async_nats::connection::State::Connected;
    let ready = connected && view.context.health.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = serde_json::json!({"ready": ready, "nats": connected, "resources": view.context.health.duties()});
    let rules = view.rules.borrow().clone();
    if rules.has_news() {
        body["rules"] = serde_json::json!(rules);
    }
    let alone = alone(&view);
    if !alone.is_empty() {
        body["no_standby"] = serde_json::json!(alone);
    }
    let differing = view.context.differences.all();
    if !differing.is_empty() {
        body["differing"] = serde_json::json!(differing);
    }
    (status, Json(body)).into_response()
}

/// Returns the resources that this scheduler leads and no other one could take over.
fn alone(view: &SchedulerView) -> Vec<Name> {
    let ProcessContext { clock, health, peers, .. } = &view.context;
    let (now, duties) = (clock.now(), health.duties().into_iter());
    let led = duties.filter(|(_, duty)| matches!(duty, ServingState::Leading { .. })).map(|(name, _)| name);
    led.filter(|name| peers.standbys(now, name).is_empty()).collect()
}

async fn metrics(State(view): State<Arc<SchedulerView>>, lost_lines: fn() -> u64, access_log: AccessLog) -> Response {
    let mut reports = Vec::new();
    for reporter in &view.reporters {
        reports.extend(reporter.report().await);
    }
    let text = metrics::render(
        &reports,
        &view.context.health,
        &view.rules.borrow(),
        &view.context.differences,
        lost_lines(),
        access_log.counts(),
    );
    exposition::respond(&text)
}

//! The endpoints for the customer of the account: access tokens, the contract, token counts.

use crate::{
    Endpoint, PolicyStats,
    http::portal::{SUBJECT, TokenForm},
    http::service::Service,
    policy::text::printed,
};
use axum::{
    Form, Json, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const NANOS_PER_SECOND: f64 = 1e9;

#[derive(Deserialize)]
struct ContractQuery {
    #[serde(rename = "userId")]
    user: String,
}

pub(crate) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/auth/realms/main/protocol/openid-connect/token", post(token))
        .route("/aux/ratelimit/contract", get(contract))
        .route("/aux/ratelimit/statistics/tokenCounts/{subject}", get(token_counts))
}

async fn token(State(service): State<Arc<Service>>, Form(form): Form<TokenForm>) -> Response {
    if let Some(instead) = service.portal.fault(Endpoint::Token).await {
        return instead;
    }
    match service.portal.issue(service.now(), &form) {
        Ok((token, life)) => {
            Json(json!({"access_token": token, "token_type": "bearer", "expires_in": life.as_secs_f64()}))
                .into_response()
        }
        Err(status) => status.into_response(),
    }
}

async fn contract(
    State(service): State<Arc<Service>>,
    Query(query): Query<ContractQuery>,
    headers: HeaderMap,
) -> Response {
    if let Some(instead) = service.portal.fault(Endpoint::Contract).await {
        return instead;
    }
    if let Err(status) = service.portal.authorize(service.now(), &headers) {
        return status.into_response();
    }
    if query.user != format!("eq:{SUBJECT}") {
        return StatusCode::FORBIDDEN.into_response();
    }
    Json(contract_body(&service.stats().policies)).into_response()
}

async fn token_counts(
    State(service): State<Arc<Service>>,
    Path(subject): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Some(instead) = service.portal.fault(Endpoint::TokenCounts).await {
        return instead;
    }
    if let Err(status) = service.portal.authorize(service.now(), &headers) {
        return status.into_response();
    }
    if subject != SUBJECT {
        return StatusCode::FORBIDDEN.into_response();
    }
    Json(token_counts_body(&service.stats().policies)).into_response()
}

/// The contract in Sentinel Hub's form: by type, and within a type by period.
fn contract_body(policies: &[PolicyStats]) -> Value {
    let types: BTreeSet<String> = policies.iter().map(type_name).collect();
    let entries = types.iter().map(|name| {
        let of_type = policies.iter().filter(|stats| type_name(stats) == *name).map(policy_body);
        json!({"type": {"name": name}, "policies": of_type.collect::<Vec<_>>()})
    });
    json!({"data": entries.collect::<Vec<_>>()})
}

fn policy_body(stats: &PolicyStats) -> Value {
    let (capacity, period) = (stats.policy.capacity().to_f64(), stats.policy.period());
    json!({
        "capacity": capacity,
        "samplingPeriod": printed(period).to_string(),
        "nanosBetweenRefills": (period.as_secs_f64() * NANOS_PER_SECOND / capacity).round(),
    })
}

fn token_counts_body(policies: &[PolicyStats]) -> Value {
    let mut data: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for stats in policies {
        let period = printed(stats.policy.period()).to_string();
        data.entry(type_name(stats)).or_default().insert(period, stats.level.to_f64().into());
    }
    json!({ "data": data })
}

fn type_name(stats: &PolicyStats) -> String {
    stats.policy.unit().as_str().to_ascii_uppercase().replace('-', "_")
}

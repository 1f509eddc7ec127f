//! What a customer may ask of the account itself: access tokens, the contract, token counts.

use crate::{Endpoint, Fault, PolicyStats, policy_text::printed, service::Service};
use axum::{
    Form, Json, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// Whose account it is, as tokens say it.
const SUBJECT: &str = "8b5c2f0e-1d3a";

const NANOS_PER_SECOND: f64 = 1e9;

/// The customer's credentials.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) token_life: Duration,
}

/// Knows the customer, and what is broken.
#[derive(Debug)]
pub(crate) struct Portal {
    customer: Option<Credentials>,
    /// Guards faults, counts and tokens for one look-up; never across an await.
    state: Mutex<PortalState>,
}

#[derive(Debug, Default)]
pub(crate) struct PortalState {
    pub(crate) faults: BTreeMap<Endpoint, Fault>,
    pub(crate) asked: BTreeMap<Endpoint, u64>,
    /// All that were ever issued.
    pub(crate) tokens: Vec<String>,
    /// Until when those are good that were not revoked.
    good: BTreeMap<String, Duration>,
}

#[derive(Deserialize)]
struct TokenForm {
    grant_type: String,
    client_id: String,
    client_secret: String,
}

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

impl Portal {
    pub(crate) fn new(customer: Option<Credentials>) -> Self {
        Self { customer, state: Mutex::default() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, PortalState> {
        self.state.lock().expect("nobody panics with the state in hand")
    }

    /// Counts the question. What the endpoint does instead of its work, if it is broken.
    async fn fault(&self, endpoint: Endpoint) -> Option<Response> {
        let fault = {
            let mut state = self.state();
            *state.asked.entry(endpoint).or_default() += 1;
            state.faults.get(&endpoint).cloned()
        };
        match fault? {
            Fault::Status(status) => Some(StatusCode::from_u16(status).expect("a status of HTTP").into_response()),
            Fault::Hang => std::future::pending().await,
            Fault::Body(body) => Some(body.into_response()),
        }
    }

    /// A token for whoever knows the secret.
    fn issue(&self, now: Duration, form: &TokenForm) -> Result<(String, Duration), StatusCode> {
        let customer = self.customer.as_ref().ok_or(StatusCode::NOT_FOUND)?;
        if form.grant_type != "client_credentials" {
            return Err(StatusCode::BAD_REQUEST);
        }
        if (&form.client_id, &form.client_secret) != (&customer.id, &customer.secret) {
            return Err(StatusCode::UNAUTHORIZED);
        }
        let mut state = self.state();
        let token = token_number(state.tokens.len());
        state.tokens.push(token.clone());
        state.good.insert(token.clone(), now + customer.token_life);
        Ok((token, customer.token_life))
    }

    /// Whether the request carries a token that is good.
    fn authorize(&self, now: Duration, headers: &HeaderMap) -> Result<(), StatusCode> {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let is_good = |token| self.state().good.get(token).is_some_and(|until| now < *until);
        if shown.is_some_and(is_good) { Ok(()) } else { Err(StatusCode::UNAUTHORIZED) }
    }
}

impl PortalState {
    /// No token is good any more.
    pub(crate) fn revoke(&mut self) {
        self.good.clear();
    }
}

/// A JWT whose signature is its number.
fn token_number(number: usize) -> String {
    let parts = [r#"{"alg":"none"}"#.to_owned(), json!({ "sub": SUBJECT }).to_string(), format!("number {number}")];
    parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
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

/// As Sentinel Hub tells them: by type, and there by period.
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

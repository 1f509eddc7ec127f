//! The customer's credentials, access tokens, and the faults of endpoints.

use crate::{Endpoint, Fault, config::Credentials};
use axum::{
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

/// The subject of the account's owner in access tokens.
pub(crate) const SUBJECT: &str = "8b5c2f0e-1d3a";

/// The customer's credentials, tokens, and the faults of endpoints.
#[derive(Debug)]
pub(crate) struct Portal {
    customer: Option<Credentials>,
    /// The lock guards faults, counts and tokens. It is held for one look-up, and never across an
    /// await.
    state: Mutex<PortalState>,
}

#[derive(Debug, Default)]
pub(crate) struct PortalState {
    pub(crate) faults: BTreeMap<Endpoint, Fault>,
    pub(crate) asked: BTreeMap<Endpoint, u64>,
    /// All issued tokens.
    pub(crate) tokens: Vec<String>,
    /// When each token that was not revoked expires.
    good: BTreeMap<String, Duration>,
}

#[derive(Deserialize)]
pub(crate) struct TokenForm {
    grant_type: String,
    client_id: String,
    client_secret: String,
}

impl Portal {
    pub(crate) fn new(customer: Option<Credentials>) -> Self {
        Self { customer, state: Mutex::default() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, PortalState> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// Counts the question, and carries out the endpoint's fault if it has one.
    pub(crate) async fn fault(&self, endpoint: Endpoint) -> Option<Response> {
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

    /// Issues a token for a client that knows the secret.
    pub(crate) fn issue(&self, now: Duration, form: &TokenForm) -> Result<(String, Duration), StatusCode> {
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

    /// Whether the request carries a valid token.
    pub(crate) fn authorize(&self, now: Duration, headers: &HeaderMap) -> Result<(), StatusCode> {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let is_good = |token| self.state().good.get(token).is_some_and(|until| now < *until);
        if shown.is_some_and(is_good) { Ok(()) } else { Err(StatusCode::UNAUTHORIZED) }
    }
}

impl PortalState {
    /// Makes all tokens invalid.
    pub(crate) fn revoke(&mut self) {
        self.good.clear();
    }
}

/// A JWT whose signature is its number.
fn token_number(number: usize) -> String {
    let parts = [r#"{"alg":"none"}"#.to_owned(), json!({ "sub": SUBJECT }).to_string(), format!("number {number}")];
    parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
}

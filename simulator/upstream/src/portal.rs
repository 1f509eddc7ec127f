//! What the account knows of its customer: credentials, access tokens, and what is broken.

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

/// Whose account it is, as tokens say it.
pub(crate) const SUBJECT: &str = "8b5c2f0e-1d3a";

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
        self.state.lock().expect("nobody panics with the state in hand")
    }

    /// Counts the question. What the endpoint does instead of its work, if it is broken.
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

    /// A token for whoever knows the secret.
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

    /// Whether the request carries a token that is good.
    pub(crate) fn authorize(&self, now: Duration, headers: &HeaderMap) -> Result<(), StatusCode> {
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

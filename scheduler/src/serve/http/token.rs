//! The token that lets clients use the front.

use crate::config::HttpSettings;
use crate::provider::SecretPlace;
use anyhow::{anyhow, bail};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use secrecy::{ExposeSecret, SecretString};
use std::net::IpAddr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Bytes of a token that cannot be guessed, even without a bound of attempts.
const LEAST_TOKEN: usize = 16;

/// The token that clients have to show, if there is one.
#[derive(Clone, Debug)]
pub(super) struct Guard(Option<Arc<SecretString>>);

impl HttpSettings {
    /// Whether the front may be served at `address`.
    ///
    /// # Errors
    /// If other hosts would reach it without a token.
    pub fn check_reach(&self, address: IpAddr) -> anyhow::Result<()> {
        if address.to_canonical().is_loopback() || !self.front || self.token.is_some() {
            return Ok(());
        }
        bail!(
            "`http.listen`: at {address} others than this host reach /v1 and /check, and no token is asked for; set `http.token_env` \
             or `http.token_file`, listen at 127.0.0.1, or leave health and metrics alone with `front = false`"
        )
    }
}

impl Guard {
    /// Reads the token once.
    ///
    /// # Errors
    /// Why there is none, without any of it.
    pub(super) fn new(place: Option<&SecretPlace>) -> anyhow::Result<Self> {
        let Some(place) = place else { return Ok(Guard(None)) };
        let field = match place {
            SecretPlace::Env(_) => "http.token_env",
            SecretPlace::File(_) => "http.token_file",
        };
        let token = place.read().map_err(|reason| anyhow!("`{field}`: {reason}"))?;
        let bytes = token.expose_secret().len();
        if bytes < LEAST_TOKEN {
            bail!("`{field}`: the token has {bytes} bytes; one that nobody guesses has {LEAST_TOKEN} or more");
        }
        if place.is_open_to_all() {
            tracing::warn!("every user of this machine may read {place}; run `chmod o-r` on it");
        }
        Ok(Guard(Some(Arc::new(token))))
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.0 else { return true };
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes())).unwrap_or_default();
        // Only the length of a wrong token can be told from the time that this takes.
        shown.ct_eq(token.expose_secret().as_bytes()).into()
    }
}

/// Lets a request with the token through.
pub(super) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.admits(request.headers()) {
        true => next.run(request).await,
        false => {
            let body = "the token is missing or wrong: Authorization: Bearer TOKEN\n";
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response()
        }
    }
}

fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

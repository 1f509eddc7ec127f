//! Gets an access token for client credentials, and keeps it while it is valid.

use super::error::{FailureKind, ProviderError, Question};
use super::http::Http;
use super::secret::SecretSource;
use super::token::AccessToken;
use super::token_permits::TokenPermits;
use anyhow::Context;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::uri::Scheme;
use http::{HeaderValue, Request, Uri};
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rampmeter_protocol::clock::{Clock, unix_ms};
use rampmeter_protocol::time::Span;
use secrecy::{ExposeSecret, SecretString};

/// The client's credentials, and the endpoint that takes them.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The token endpoint.
    pub token_url: Uri,
    /// Where the client id is kept.
    pub client_id: SecretSource,
    /// Where the client secret is kept.
    pub client_secret: SecretSource,
}

impl Credentials {
    /// Checks that id and secret can be read, and warns if every user may read the secret.
    pub(super) fn check(&self) -> Result<(), String> {
        self.client_id.read()?;
        self.client_secret.read()?;
        if self.client_secret.is_open_to_all() {
            tracing::warn!("every user of this machine may read {}; run `chmod o-r` on it", self.client_secret);
        }
        Ok(())
    }

    /// Builds the form for a token by client credentials (RFC 6749, 4.4.2).
    fn form(&self) -> Result<SecretString, String> {
        let (id, secret) = (self.client_id.read()?, self.client_secret.read()?);
        let [id, secret] =
            [id, secret].map(|text| utf8_percent_encode(text.expose_secret(), NON_ALPHANUMERIC).to_string());
        Ok(format!("grant_type=client_credentials&client_id={id}&client_secret={secret}").into())
    }
}

/// Provides a valid token. It has one owner, so that two tasks never request a token at once.
#[derive(Debug)]
pub struct OAuth {
    http: Http,
    clock: Clock,
    credentials: Credentials,
    token: Option<AccessToken>,
    permits: Option<TokenPermits>,
}

impl OAuth {
    /// Prepares requests for tokens with `credentials`. Each answer may take `timeout`.
    ///
    /// # Errors
    /// If the credentials can't be read, or the system has no certificates for TLS.
    pub fn open(credentials: Credentials, timeout: Span, clock: Clock) -> anyhow::Result<Self> {
        credentials.check().map_err(anyhow::Error::msg)?;
        let http = Http::new(timeout, credentials.token_url.scheme() == Some(&Scheme::HTTPS));
        Ok(OAuth::new(http.context("no certificates to check the token endpoint's with")?, clock, credentials))
    }

    pub(super) fn new(http: Http, clock: Clock, credentials: Credentials) -> Self {
        OAuth { http, clock, credentials, token: None, permits: None }
    }

    pub(super) fn set_permits(&mut self, permits: TokenPermits) {
        self.permits = Some(permits);
    }

    /// Returns the current token, or a new one if the current one ends soon.
    ///
    /// # Errors
    /// If a new token can't be obtained.
    pub async fn token(&mut self) -> Result<AccessToken, ProviderError> {
        let now = self.clock.now();
        if let Some(token) = self.token.as_ref().filter(|token| now < token.refresh_at) {
            return Ok(token.clone());
        }
        let request =
            self.request().map_err(|reason| ProviderError::new(Question::Token, FailureKind::Credentials, reason))?;
        let sending = self.http.send(Question::Token, request);
        let body = match &self.permits {
            Some(permits) => permits.send(sending).await?,
            None => sending.await?,
        };
        let token = AccessToken::read(&body, now, unix_ms())?;
        self.token = Some(token.clone());
        Ok(token)
    }

    /// Drops the current token, which the API does not accept.
    pub fn forget(&mut self) {
        self.token = None;
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, String> {
        let form = self.credentials.form()?;
        let mut request = Request::post(&self.credentials.token_url)
            .body(Full::from(form.expose_secret().to_owned()))
            .map_err(|error| error.to_string())?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Ok(request)
    }
}

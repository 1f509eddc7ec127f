//! The service of Sentinel Hub, and of Copernicus Data Space, which runs the same software.
//!
//! Nothing depends on the two endpoints, whose removal has been announced. The configuration states what they don't.

use super::contract;
use super::error::{FailureKind, ProviderError, Question};
use super::http::Http;
use super::oauth::OAuth;
use super::token_counts;
use super::token_permits::TokenPermits;
use super::{AccessToken, Contract, ProvidedLevel, ProviderSettings};
use anyhow::Context;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION};
use http::uri::Scheme;
use http::{HeaderValue, Request};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rampmeter_protocol::clock::Clock;

/// Characters to escape in a user's id: all that could end a path or a query value.
const ID: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// A client of Sentinel Hub's rate limit endpoints. It keeps what it needs between questions, such as an access token;
/// a question may be dropped at any await. Every answer is checked; implausible limits are an error. An error contains
/// no secret and nothing received.
#[derive(Debug)]
pub struct SentinelHub {
    http: Http,
    oauth: OAuth,
    base_url: String,
    share_token: bool,
}

impl SentinelHub {
    /// Opens the provider without asking a question.
    ///
    /// # Errors
    /// If its secrets can't be read, or the system has no certificates for TLS.
    pub fn open(settings: &ProviderSettings, clock: Clock) -> anyhow::Result<Self> {
        settings.credentials.check().map_err(anyhow::Error::msg)?;
        let tls =
            settings.base_url.starts_with("https") || settings.credentials.token_url.scheme() == Some(&Scheme::HTTPS);
        let http = Http::new(settings.timeout, tls).context("no certificates to check a provider's with")?;
        let oauth = OAuth::new(http.clone(), clock, settings.credentials.clone());
        let (base_url, share_token) = (settings.base_url.clone(), settings.share_token);
        Ok(SentinelHub { http, oauth, base_url, share_token })
    }

    /// Takes a permit for each request for an access token from now on.
    pub fn set_token_permits(&mut self, permits: TokenPermits) {
        self.oauth.set_permits(permits);
    }

    /// Asks for all limits of the account: at least one, and none twice.
    ///
    /// # Errors
    /// If there is no answer, or no plausible one.
    pub async fn limits(&mut self) -> Result<Contract, ProviderError> {
        let path = |subject: &str| format!("/aux/ratelimit/contract?userId=eq:{subject}");
        contract::read(&self.get(Question::Contract, path).await?)
    }

    /// Asks for the present levels of all buckets; `None` if the service does not state them.
    ///
    /// # Errors
    /// If there is no answer, or no plausible one.
    pub async fn levels(&mut self) -> Result<Option<Vec<ProvidedLevel>>, ProviderError> {
        let path = |subject: &str| format!("/aux/ratelimit/statistics/tokenCounts/{subject}");
        match self.get(Question::Levels, path).await {
            Ok(body) => token_counts::read(&body).map(Some),
            Err(error) if error.question == Question::Levels && error.kind == FailureKind::Missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the account's access token for workers; `None` if it is not shared.
    ///
    /// # Errors
    /// If a token can't be obtained.
    pub async fn access_token(&mut self) -> Result<Option<AccessToken>, ProviderError> {
        if !self.share_token {
            return Ok(None);
        }
        self.oauth.token().await.map(Some)
    }

    /// Asks, and asks once more with a new token if the current one is not accepted.
    async fn get(&mut self, question: Question, path: fn(&str) -> String) -> Result<Bytes, ProviderError> {
        match self.get_once(question, path).await {
            Err(error) if error.kind == FailureKind::Unauthorized && error.question == question => {
                self.oauth.forget();
                self.get_once(question, path).await
            }
            answered => answered,
        }
    }

    async fn get_once(&mut self, question: Question, path: fn(&str) -> String) -> Result<Bytes, ProviderError> {
        let token = self.oauth.token().await?;
        let subject = utf8_percent_encode(&token.subject, ID).to_string();
        let request = Request::get(format!("{}{}", self.base_url, path(&subject)))
            .header(AUTHORIZATION, token.authorization)
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .body(Full::default())
            .map_err(|error| ProviderError::new(question, FailureKind::Malformed, error.to_string()))?;
        self.http.send(question, request).await
    }
}

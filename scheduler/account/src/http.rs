//! A client for single HTTPS requests with bounded answers.

use super::error::{FailureKind, ProviderError, Question};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rampmeter_protocol::time::Span;

/// The longest answer that is read, in bytes. A contract has about one thousand.
const MAX_BODY: usize = 1 << 20;

/// A client with one deadline for a whole exchange. It follows no redirect: another host must not learn the request.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: TlsOrPlainClient,
    timeout: Span,
}

#[derive(Clone, Debug)]
enum TlsOrPlainClient {
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
    /// For `http://` addresses, on machines that may have no certificates.
    Plain(Client<HttpConnector, Full<Bytes>>),
}

impl Http {
    /// Creates a client with the certificates of the system, or of `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR`. Fails if there are none. Without `tls` it accepts `http://` only.
    pub(super) fn new(timeout: Span, tls: bool) -> std::io::Result<Self> {
        let client = Client::builder(TokioExecutor::new());
        if !tls {
            return Ok(Http { client: TlsOrPlainClient::Plain(client.build_http()), timeout });
        }
        let connector = HttpsConnectorBuilder::new().with_native_roots()?.https_or_http().enable_http1().build();
        Ok(Http { client: TlsOrPlainClient::Tls(client.build(connector)), timeout })
    }

    pub(super) async fn send(&self, question: Question, request: Request<Full<Bytes>>) -> Result<Bytes, ProviderError> {
        match tokio::time::timeout(self.timeout.duration(), self.answer(question, request)).await {
            Ok(answer) => answer,
            Err(_elapsed) => {
                let reason = format!("no answer within {}", self.timeout);
                Err(ProviderError::new(question, FailureKind::Timeout, reason))
            }
        }
    }

    async fn answer(&self, question: Question, request: Request<Full<Bytes>>) -> Result<Bytes, ProviderError> {
        let asking = match &self.client {
            TlsOrPlainClient::Tls(client) => client.request(request),
            TlsOrPlainClient::Plain(client) => client.request(request),
        };
        let response = asking.await.map_err(|error| {
            let reason = format!("no connection: {:#}", anyhow::Error::new(error));
            ProviderError::new(question, FailureKind::Unreachable, reason)
        })?;
        if !response.status().is_success() {
            return Err(refused(question, response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(|_| {
            let reason = format!("the answer breaks off, or has more than {MAX_BODY} bytes");
            ProviderError::new(question, FailureKind::Malformed, reason)
        })?;
        Ok(body.to_bytes())
    }
}

fn refused(question: Question, status: StatusCode) -> ProviderError {
    let (kind, meaning) = match status.as_u16() {
        // OAuth answers 400 to an unknown client.
        400 if question == Question::Token => (FailureKind::Unauthorized, "client id or secret are not accepted"),
        401 | 403 => (FailureKind::Unauthorized, "client id, secret or token are not accepted"),
        404 | 410 => (FailureKind::Missing, "there is no such endpoint any more"),
        429 => (FailureKind::RateLimited, "asked too often"),
        300..=399 => (FailureKind::Status, "redirects are not followed"),
        _ => (FailureKind::Status, "no success"),
    };
    ProviderError::new(question, kind, format!("answered {}, {meaning}", status.as_u16()))
}

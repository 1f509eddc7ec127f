//! The HTTP client for a collector.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::time::Duration;

/// Timeout of a request, far longer than a collector needs.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bound on the bytes of an answer. They do not matter, but a connection is reused only if all were read.
const MAX_ANSWER: usize = 64 * 1024;

/// Sends requests to one address. Follows no redirect, because its headers may contain a key.
#[derive(Debug)]
pub(crate) struct Collector {
    client: TlsOrPlainClient,
    traces: Uri,
}

#[derive(Debug)]
enum TlsOrPlainClient {
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
    /// For `http://` addresses, on machines that may have no certificates.
    Plain(Client<HttpConnector, Full<Bytes>>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendError {
    /// The collector is away or busy, so spans may arrive later.
    #[error("{0}")]
    Away(String),
    /// The collector refuses the spans for good.
    #[error("{0}")]
    Refused(String),
}

impl Collector {
    /// Creates a client for the address `traces`. Fails if that needs TLS and the system has no certificates.
    pub(crate) fn new(traces: Uri) -> std::io::Result<Self> {
        let client = Client::builder(TokioExecutor::new());
        let client = match traces.scheme_str() {
            Some("https") => {
                let connector = HttpsConnectorBuilder::new().with_native_roots()?.https_only().enable_http1().build();
                TlsOrPlainClient::Tls(client.build(connector))
            }
            Some(_) | None => TlsOrPlainClient::Plain(client.build_http()),
        };
        Ok(Collector { client, traces })
    }

    pub(crate) async fn send(&self, headers: &HeaderMap, body: Bytes) -> Result<(), SendError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.traces.clone();
        *request.headers_mut() = headers.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let answered = tokio::time::timeout(TIMEOUT, self.answer(request)).await;
        answered.unwrap_or_else(|_| Err(SendError::Away(format!("no answer within {TIMEOUT:?}"))))
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<(), SendError> {
        let asking = match &self.client {
            TlsOrPlainClient::Tls(client) => client.request(request),
            TlsOrPlainClient::Plain(client) => client.request(request),
        };
        let response = asking.await.map_err(|error| SendError::Away(with_causes(&error)))?;
        let status = response.status();
        Limited::new(response.into_body(), MAX_ANSWER).collect().await.ok();
        match status {
            status if status.is_success() => Ok(()),
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(SendError::Away(format!("answered {}", status.as_u16()))),
            status => Err(SendError::Refused(format!("answered {}", status.as_u16()))),
        }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Reaches `collector::MAX_ANSWER`.
    #[tokio::test]
    async fn an_answer_without_an_end_is_read_in_part() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let traces = format!("http://{}/v1/traces", listener.local_addr().unwrap()).parse().unwrap();
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 1_u64 << 40);
            stream.write_all(head.as_bytes()).await.unwrap();
            // The connection is closed by the exporter.
            while stream.write_all(&[b'a'; 4096]).await.is_ok() {}
        };
        let collector = Collector::new(traces).unwrap();
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        let (sent, ()) = tokio::join!(collector.send(&headers, body), answering);
        assert_eq!(sent, Ok(()));
    }
}

//! Connections to the upstream.

pub(super) mod connection;
mod kept_bytes;
pub(super) mod request_body;

use crate::pool::request_body::{RequestBody, Sending};
use crate::settings::{Times, Upstream};
use crate::start_error::StartError;
use connection::{KnownConnection, was_ending};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rampmeter_listener::tls::trusting;
use rampmeter_protocol::clock::Clock;
use std::path::Path;
use std::pin::pin;
use tokio::net::TcpStream;
use tower::ServiceExt;
use tower::util::MapResponse;

const MAX_IDLE: usize = 256;

type Connection = MaybeHttpsStream<TokioIo<TcpStream>>;
type Connector = MapResponse<HttpsConnector<HttpConnector>, fn(Connection) -> TokioIo<KnownConnection<Connection>>>;

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    kept: Client<Connector, Sending>,
    /// Makes a connection for each call.
    fresh: Client<Connector, Sending>,
    times: Times,
    clock: Clock,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("there is no connection to the upstream")]
    NoConnection(#[source] Error),
    #[error("the upstream ends the connection without an answer")]
    NoAnswer(#[source] Error),
    /// The upstream had not begun to process the request.
    #[error("the upstream ends a kept connection while a request leaves")]
    Ending(#[source] Error),
    #[error("the client's body breaks off")]
    BrokenBody,
    #[error("the upstream does not answer in time")]
    Late,
    #[error("the client does not send its body in time")]
    SlowClient,
}

impl Pool {
    /// Fails if the system has no authorities.
    pub(crate) fn new(
        times: Times,
        upstream: &Upstream,
        authorities: Option<&Path>,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(times.connect.duration()));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let builder = HttpsConnectorBuilder::new();
        let builder = match (upstream.is_encrypted(), authorities) {
            (true, None) => builder.with_native_roots().map_err(StartError::Authorities)?,
            (true, Some(file)) => builder.with_tls_config(trusting(file)?),
            // No connection is encrypted, so no authority is needed.
            (false, _) => builder.with_tls_config(no_authorities()),
        };
        let connector = builder.https_or_http().enable_all_versions().wrap_connector(tcp);
        let connector: Connector = connector.map_response(KnownConnection::begin);
        let client = |most_idle| {
            let mut builder = Client::builder(TokioExecutor::new());
            builder.pool_timer(TokioTimer::new()).pool_idle_timeout(times.idle.duration());
            builder.pool_max_idle_per_host(most_idle).build(connector.clone())
        };
        Ok(Pool { kept: client(MAX_IDLE), fresh: client(0), times, clock })
    }

    /// Sends a request, and returns the response's head. A new connection cannot be just closing.
    pub(crate) async fn call(
        &self,
        request: Request<Sending>,
        body: &RequestBody,
        anew: bool,
    ) -> Result<Response<Incoming>, CallError> {
        let client = if anew { &self.fresh } else { &self.kept };
        let mut answer = pin!(client.request(request));
        loop {
            let due = body.moved() + self.times.first_byte;
            tokio::select! {
                biased;
                answer = &mut answer => return answer.map_err(|error| explained(error, body)),
                () = tokio::time::sleep_until(self.clock.instant(due).into()) => {}
            }
            if self.clock.now() >= body.moved() + self.times.first_byte {
                return Err(if body.has_ended() { CallError::Late } else { CallError::SlowClient });
            }
        }
    }
}

fn explained(error: Error, body: &RequestBody) -> CallError {
    match (error.is_connect(), body.has_failed()) {
        (true, _) => CallError::NoConnection(error),
        (false, true) => CallError::BrokenBody,
        (false, false) if was_ending(&error) => CallError::Ending(error),
        (false, false) => CallError::NoAnswer(error),
    }
}

fn no_authorities() -> tokio_rustls::rustls::ClientConfig {
    let roots = tokio_rustls::rustls::RootCertStore::empty();
    tokio_rustls::rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
}

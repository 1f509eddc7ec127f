//! Bounds the number and the slowness of connections, and closes them in order.

use super::places::{Party, Places};
use super::token::Caller;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rampmeter_listener::tls::Certificate;
use rampmeter_listener::{Connection, Connections, WhenFull};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service;

/// Bound on the bytes of a request's line and headers: what proxies pass on by default.
const MAX_HEAD: usize = 16 * 1024;
/// How long a client may take for its headers, or be idle. A slower one is malicious or gone.
const READ_HEAD: Duration = Duration::from_secs(10);
/// How long answers may take to leave when the process stops.
const LEAVE: Duration = Duration::from_secs(1);
/// Connections kept for requests for health. With fewer, a burst of new connections could close them all.
const KEPT_FOR_HEALTH: usize = 64;
/// The answer to a client when all places are taken by clients with an open request.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Admits clients. If full, closes the oldest connection without an open request, so that slow clients keep none out.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLimiter {
    connections: Arc<Connections>,
    /// The places of requests by client and whether they ask for permits: these may wait long, and leave others room.
    front_places: Places<(Party, bool)>,
}

impl ConnectionLimiter {
    pub(super) fn new(places: usize) -> Self {
        ConnectionLimiter {
            connections: Arc::new(Connections::new(places + KEPT_FOR_HEALTH, WhenFull::Evict(FULL))),
            front_places: Places::new(places),
        }
    }

    /// Accepts clients for ever.
    pub(super) async fn open(self, listener: TcpListener, certificate: Option<Certificate>, router: Router) {
        let certificate = certificate.map(Arc::new);
        let greet = |stream, connection| greet(stream, connection, certificate.clone(), router.clone());
        self.connections.let_in(&listener, greet).await;
    }

    /// Closes all connections, once the answers owed on them are sent.
    pub(super) async fn clear(&self) {
        tokio::time::timeout(LEAVE, self.connections.clear()).await.ok();
    }
}

/// Serves a connection, encrypted if there is a certificate. A slow handshake loses its place like a slow request.
async fn greet(stream: TcpStream, connection: Connection, certificate: Option<Arc<Certificate>>, router: Router) {
    let Some(certificate) = certificate else { return serve(stream, connection, router).await };
    if let Some(Some(stream)) = connection.unless_sent_away(certificate.accept(stream)).await {
        serve(stream, connection, router).await;
    }
}

/// Serves a client on `stream`, and adds its connection to every request's extensions.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, connection: Connection, router: Router) {
    let of_requests = connection.clone();
    let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(of_requests.clone());
        router.clone().call(request.map(Body::new))
    });
    let http = rampmeter_listener::http(READ_HEAD, MAX_HEAD).http1_only();
    connection.serve(&http, READ_HEAD, stream, service).await;
}

/// Serves a request of the front, which may wait, in a place for such requests.
pub(super) async fn in_a_place(
    State(connection_limiter): State<ConnectionLimiter>,
    request: Request,
    next: Next,
) -> Response {
    let caller = request.extensions().get::<Caller>().expect("the guard adds it to every request");
    let holder = (caller.party(), request.uri().path().starts_with("/v1/permit/"));
    let Some(_place) = connection_limiter.front_places.take(holder) else {
        let headers = [(header::RETRY_AFTER, "1"), (header::CONNECTION, "close")];
        let reason =
            "as many requests wait as `max_connections` in [http] allows, of which one client has two thirds\n";
        return (StatusCode::SERVICE_UNAVAILABLE, headers, reason).into_response();
    };
    next.run(request).await
}

//! Connections of clients.

use crate::checked_stream::{CheckedStream, MAX_HEAD};
use crate::exchange::{Exchange, Peer};
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use rampmeter_listener::tls::{Certificate, ClientName};
use rampmeter_listener::{Connection, Connections, WhenFull};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::SetOnce;

/// How long a client may take for a head, and therefore how long a connection may be idle. Clients
/// keep connections for up to a minute, and a request on a connection that closes is lost.
const READ_HEAD: Duration = Duration::from_secs(75);
const MAX_HEADERS: usize = 128;
const MAX_STREAMS: u32 = 250;
/// Bounds on unread bytes of an HTTP/2 request and connection. In frames of one byte they take a hundred times as much.
const WINDOWS: (u32, u32) = (64 << 10, 256 << 10);
/// The interval of HTTP/2 pings, and the timeout of their replies.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// Accepts clients. Clones share the exchange.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    exchange: Arc<Exchange>,
    /// Without a certificate, connections are not encrypted.
    certificate: Option<Arc<Certificate>>,
}

impl Listener {
    pub(crate) fn new(exchange: Exchange, certificate: Option<Certificate>) -> Self {
        Listener { exchange: Arc::new(exchange), certificate: certificate.map(Arc::new) }
    }

    /// Serves until `draining` and the end of all connections. Beyond `most`, clients wait in the system's queue.
    pub(crate) async fn serve(self, listener: TcpListener, draining: Arc<SetOnce<()>>, most: usize) {
        let connections = Connections::new(most, WhenFull::Wait);
        tokio::select! {
            biased;
            &() = draining.wait() => {}
            () = connections.let_in(&listener, |stream, connection| self.clone().greet(stream, connection)) => {}
        }
        drop(listener);
        connections.clear().await;
    }

    async fn greet(self, stream: TcpStream, connection: Connection) {
        // A client that is sending a head when the drain begins still gets a response.
        let _owed = connection.owe();
        let mut peer = Peer { address: connection.address(), is_encrypted: self.certificate.is_some(), name: None };
        let Some(certificate) = &self.certificate else { return self.serve_requests(stream, &connection, peer).await };
        if let Some(stream) = certificate.accept(stream).await {
            peer.name = ClientName::of(stream.get_ref().1);
            self.serve_requests(stream, &connection, peer).await;
        }
    }

    async fn serve_requests(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        connection: &Connection,
        peer: Peer,
    ) {
        let service = service_fn(|request: Request<Incoming>| {
            let (exchange, peer) = (self.exchange.clone(), peer.clone());
            async move { Ok::<_, Infallible>(exchange.answer(request, peer).await) }
        });
        connection.serve(&builder(), READ_HEAD, CheckedStream::new(stream), service).await;
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = rampmeter_listener::http(READ_HEAD, MAX_HEAD);
    builder.http1().max_headers(MAX_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .max_header_list_size(MAX_HEAD as u32)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    builder
}

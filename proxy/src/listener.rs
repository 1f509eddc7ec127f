//! Connections of clients.

use crate::checked_stream::{CheckedStream, MAX_HEAD};
use crate::drain::Drain;
use crate::exchange::{Exchange, Peer};
use crate::tls::{Certificate, ClientName};
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

/// How long a client may take for a head, which is also how long a connection may lie idle. Clients
/// keep connections for up to a minute, and a request on a connection that closes is lost.
const READ_HEAD: Duration = Duration::from_secs(75);
/// How long a client may take to agree on encryption.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The most headers of one request.
const MAX_HEADERS: usize = 128;
/// The most requests that one HTTP/2 connection may have open.
const MAX_STREAMS: u32 = 250;
/// The interval of HTTP/2 pings, and how long an answer to one may take.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));
/// The pause after the system has refused a connection, for example because no file is free.
const PAUSE: Duration = Duration::from_millis(100);

/// Lets clients in.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: TcpListener,
    exchange: Arc<Exchange>,
    /// Without a certificate, connections are not encrypted.
    certificate: Option<Arc<Certificate>>,
    places: Arc<Semaphore>,
}

/// What serves the requests of one connection.
struct Service {
    exchange: Arc<Exchange>,
    peer: Peer,
    drain: Drain,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    pub(crate) fn new(
        listener: TcpListener,
        exchange: Arc<Exchange>,
        certificate: Option<Certificate>,
        most: usize,
    ) -> Self {
        Listener { listener, exchange, certificate: certificate.map(Arc::new), places: Arc::new(Semaphore::new(most)) }
    }

    /// Serves until the drain begins, and then until the last connection has ended.
    pub(crate) async fn serve(self, drain: Drain) {
        let mut connections = JoinSet::new();
        let mut ends = pin!(drain.has_begun());
        loop {
            tokio::select! {
                biased;
                () = &mut ends => break,
                Some(_ended) = connections.join_next() => {}
                (stream, address, place) = self.accept() => {
                    let (exchange, drain) = (self.exchange.clone(), drain.clone());
                    let (address, is_encrypted) = (address.ip().to_canonical(), self.certificate.is_some());
                    let peer = Peer { address, is_encrypted, name: None };
                    let service = Service { exchange, peer, drain, _place: place };
                    connections.spawn(service.greet(stream, self.certificate.clone()));
                }
            }
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }

    /// The next client. While all places are taken, further clients wait in the system's queue.
    async fn accept(&self) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
        loop {
            let place = self.places.clone().acquire_owned().await.expect("the places are never closed");
            match self.listener.accept().await {
                Ok((stream, address)) => return (stream, address, place),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Service {
    /// Encrypts the connection if there is a `certificate`, and serves it.
    async fn greet(mut self, stream: TcpStream, certificate: Option<Arc<Certificate>>) {
        stream.set_nodelay(true).ok();
        let Some(certificate) = certificate else { return self.serve(stream).await };
        // The handshake itself tells the client why it fails.
        let handshake = certificate.acceptor().await.accept(stream);
        if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, handshake).await {
            self.peer.name = ClientName::of(stream.get_ref().1);
            self.serve(stream).await;
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(|request: Request<Incoming>| {
            let (exchange, peer) = (self.exchange.clone(), self.peer.clone());
            async move { Ok::<_, Infallible>(exchange.answer(request, peer).await) }
        });
        let (builder, stream) = (builder(), TokioIo::new(CheckedStream::new(stream)));
        let mut connection = pin!(builder.serve_connection(stream, service));
        tokio::select! {
            // The client may end its connection in any way.
            _ended = connection.as_mut() => return,
            () = self.drain.has_begun() => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await.ok();
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_HEAD)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    builder
}
